"""Rows of styled text: spans of text with rich's style, a heading, wrapped paragraphs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

Span = tuple[str, str]
StyledLine = list[Span]
HOT, GOOD, BAR = "#e5533a", "#2a9d8f", "#7f97b0"  # legible on dark and light backgrounds


def plain(row: StyledLine) -> str:
    """The row without styles."""
    return "".join(text for text, _ in row).rstrip()


def heading(title: str, width: int) -> Iterator[StyledLine]:
    """An empty line, then the title and a rule."""
    yield [("", "")]
    yield [(f"── {title} ", "bold"), ("─" * max(0, width - len(title) - 4), "dim")]


def wrapped(text: str, width: int, indent: str = "  ", first: str = "", style: str = "") -> Iterator[StyledLine]:
    for part in textwrap.wrap(text, width, initial_indent=first or indent, subsequent_indent=indent):
        yield [(part, style)]
