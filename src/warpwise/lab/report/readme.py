"""Read an operation's README.md and NOTES.md: each rung's idea and prediction, and notes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

MARKER = re.compile(r"<!-- measured(?: (?P<op>\w+))?: (?P<points>.+?) -->")
RUNG = re.compile(r"^`(?P<name>[^`]+)`$")
LEAD = re.compile(r"^\*\*(?P<lead>[^*]+)\*\*(?P<rest>.*)$", re.DOTALL)
HEADING = re.compile(r"^#+ (?P<title>.+)$")


@dataclass(frozen=True)
class ReadmeNotes:
    """``changes`` and ``predictions`` by rung; ``points``, the (case, dtype) of the predictions.

    ``paragraphs`` are (lead, text): the paragraphs of the README with a bold lead, and all of the notes, where the lead
    is the heading above. The lead is empty in further paragraphs and list items under a heading.
    """

    changes: Mapping[str, str] = field(default_factory=dict)
    predictions: Mapping[str, str] = field(default_factory=dict)
    points: tuple[tuple[str, str], ...] = ()
    paragraphs: tuple[tuple[str, str], ...] = ()


def read(folder: Path, op: str = "") -> ReadmeNotes:
    """Read README.md and NOTES.md of the operation ``op`` in ``folder`` or its parent; empty if there are none."""
    found = next((each for each in (folder, folder.parent) if (each / "README.md").is_file()), folder)
    readme, notes = (path.read_text() if path.is_file() else "" for path in (found / "README.md", found / "NOTES.md"))
    return parse(readme, notes, op)


def parse(readme: str, notes: str = "", op: str = "") -> ReadmeNotes:
    """Tables of rungs, the comments that name their points, and paragraphs; tables of another operation are skipped."""
    cells: dict[str, dict[str, str]] = {"what changes": {}, "prediction": {}}
    points: list[tuple[str, str]] = []
    for text in (readme, notes):
        columns: list[str] = []
        skipped = False
        for line in text.splitlines():
            if marked := MARKER.search(line):
                skipped = bool(op and marked["op"] and marked["op"] != op)
                if not skipped and not points:
                    parts = [name.strip().partition(" ") for name in marked["points"].split("/")]
                    points = [(size, dtype) for size, _, dtype in parts]
            row = [cell.strip() for cell in line.strip().strip("|").split(" | ")] if line.startswith("|") else []
            if row and row[0] == "rung":
                columns = row
            elif row and not skipped and (match := RUNG.match(row[0])) and len(row) == len(columns):
                for column, cell in zip(columns, row, strict=True):
                    for kind, known in cells.items():
                        if column.startswith(kind):
                            known[match["name"]] = cell
    paragraphs = (*_leads(readme), *_sections(notes))
    return ReadmeNotes(cells["what changes"], cells["prediction"], tuple(points), paragraphs)


def _blocks(text: str) -> Iterator[str]:
    return (block.strip() for block in re.split(r"\n\s*\n", text) if block.strip())


def _leads(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs with a bold lead."""
    for block in _blocks(text):
        if match := LEAD.match(block):
            yield match["lead"].strip().rstrip("."), " ".join(match["rest"].split())


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield (lead, text) of the paragraphs and list items under headings, without tables and comments."""
    lead, inside = "", False
    for block in _blocks(text):
        if match := HEADING.match(block):
            lead, inside = match["title"], block.startswith("##")
        elif inside and not block.startswith(("|", "<!--", "!", "Measured on ")):
            items = re.split(r"\n(?=- )", block)
            for item in items:
                yield (
                    lead,
                    " ".join(item.split()).replace("- ", "• ", 1) if item.startswith("- ") else " ".join(item.split()),
                )
                lead = ""
