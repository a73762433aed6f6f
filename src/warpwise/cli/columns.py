"""Long lists in columns, printed much faster than a rich table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import click
from rich.cells import cell_len
from rich.console import Console


@dataclass(frozen=True)
class Column:
    """A column. On a narrow console the column with the highest ``spare`` is dropped first; 0 is never dropped."""

    heading: str
    right: bool = False
    spare: int = 0


class Cell(NamedTuple):
    """A text and its colour."""

    text: str
    colour: str = ""
    dim: bool = False


GAP = "  "


def print_columns(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    """Print ``rows`` under their headings, dropping columns by ``spare`` until they fit the console."""
    widths = [
        max([cell_len(column.heading), *(_width(row[at].text) for row in rows)]) if _filled(rows, at) else 0
        for at, column in enumerate(columns)
    ]
    shown = [at for at, width in enumerate(widths) if width]
    for at in sorted(shown, key=lambda at: -columns[at].spare):
        if sum(widths[at] + len(GAP) for at in shown) - len(GAP) <= console.width or not columns[at].spare:
            break
        shown.remove(at)
    coloured = console.is_terminal and not console.no_color
    click.echo("\n".join(_lines(columns, rows, widths, shown, coloured)), file=console.file, color=coloured)


def _lines(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    widths: Sequence[int],
    shown: Sequence[int],
    coloured: bool,
) -> Iterator[str]:
    headings = [Cell(column.heading, dim=True) for column in columns]
    for row in (headings, *rows):
        texts = []
        for at in shown:
            cell = row[at]
            space = " " * (widths[at] - _width(cell.text))
            text = click.style(cell.text, fg=cell.colour or None, dim=cell.dim or None) if coloured else cell.text
            texts.append(space + text if columns[at].right else text + space)
        yield GAP.join(texts).rstrip()


def _filled(rows: Sequence[Sequence[Cell]], at: int) -> bool:
    return any(row[at].text for row in rows)


@lru_cache(maxsize=65536)
def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)
