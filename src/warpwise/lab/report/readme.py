"""Read an operation's README: each rung's idea and prediction, and notes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MARKER = re.compile(r"<!-- measured: (?P<points>.+?) -->")
RUNG = re.compile(r"^`(?P<name>[^`]+)`$")
LEAD = re.compile(r"^\*\*(?P<lead>[^*]+)\*\*(?P<rest>.*)$", re.DOTALL)


@dataclass(frozen=True)
class ReadmeNotes:
    """``changes`` and ``predictions`` by rung; ``points``, the (case, dtype) of the predictions; ``paragraphs`` as
    (lead, text).
    """

    changes: Mapping[str, str] = field(default_factory=dict)
    predictions: Mapping[str, str] = field(default_factory=dict)
    points: tuple[tuple[str, str], ...] = ()
    paragraphs: tuple[tuple[str, str], ...] = ()


def read(folder: Path) -> ReadmeNotes:
    """The notes in the README of ``folder``; empty without one."""
    path = folder / "README.md"
    return parse(path.read_text()) if path.is_file() else ReadmeNotes()


def parse(text: str) -> ReadmeNotes:
    """Parse tables whose first column names rungs, the comment with their points, and paragraphs with a bold lead."""
    changes: dict[str, str] = {}
    predictions: dict[str, str] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")] if line.startswith("|") else []
        match = RUNG.match(cells[0]) if cells else None
        if match is not None and len(cells) >= 3:
            changes[match["name"]], predictions[match["name"]] = cells[1], cells[2]
    marked = MARKER.search(text)
    points = [name.strip().partition(" ") for name in marked["points"].split("/")] if marked else []
    paragraphs = []
    for block in re.split(r"\n\s*\n", text):
        if lead := LEAD.match(block.strip()):
            paragraphs.append((lead["lead"].strip().rstrip("."), " ".join(lead["rest"].split())))
    return ReadmeNotes(changes, predictions, tuple((size, dtype) for size, _, dtype in points), tuple(paragraphs))
