"""Parse the raw page of ``ncu --csv``: a header, a row of units, and a row for each profiled launch."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from warpwise.lab.profile.ncu.errors import NcuError

Index3 = tuple[int, int, int]

_FIRST = "ID"
_NUMBER = re.compile(r"[+-]?[\d,]*\.?\d+(?:[eE][+-]?\d+)?")
_PLAIN = ("Process ID", "Process Name", "Host Name", "Context", "Stream", "Device", "CC", "thread Domain", "Id:Domain")


@dataclass(frozen=True)
class Measured:
    """One profiled launch: ``metrics`` under ncu's own names, in base units (``units`` has them: "ns", "byte", "%").

    ``kernel`` is the name in the format requested from ncu. ``texts`` are metrics without a number, such as the list of
    metrics of a breakdown. Metrics that ncu could not measure are omitted.
    """

    kernel: str
    grid: Index3
    block: Index3
    metrics: dict[str, float]
    units: dict[str, str] = field(default_factory=dict, repr=False)
    texts: dict[str, str] = field(default_factory=dict, repr=False)


def parse(text: str) -> list[Measured]:
    """The launches in the output of ``ncu --csv --page raw``; messages around the table are ignored.

    Raises ``NcuError`` if there is no table.
    """
    rows = list(csv.reader(_table_lines(text)))
    if not rows or rows[0][:1] != [_FIRST]:
        raise NcuError(f"ncu printed no table of metrics:\n{text.strip() or '(nothing)'}")
    header, rest = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    units: dict[str, str] = {}
    launches = []
    for row in rest:
        cells = dict(zip(header, row, strict=True))
        if cells[_FIRST]:
            launches.append(_launch(cells, units))
        else:
            units = {name: unit for name, unit in cells.items() if unit}
    return launches


def _table_lines(text: str) -> Iterable[str]:
    """The lines from the header on, without ncu's messages (``==PROF== ...``), which may be anywhere."""
    started = False
    for line in text.splitlines(keepends=True):
        started = started or line.startswith(f'"{_FIRST}"')
        if started and not line.startswith("=="):
            yield line


def _launch(cells: dict[str, str], units: dict[str, str]) -> Measured:
    metrics: dict[str, float] = {}
    texts: dict[str, str] = {}
    for name, text in cells.items():
        if name in _PLAIN or name in (_FIRST, "Kernel Name", "Grid Size", "Block Size"):
            continue
        value = number(text)
        if value is not None:
            metrics[name] = value
        elif text and not text.endswith("n/a"):
            texts[name] = text
    there = {name: unit for name, unit in units.items() if name in metrics}
    return Measured(
        cells["Kernel Name"], _index3(cells["Grid Size"]), _index3(cells["Block Size"]), metrics, there, texts
    )


def number(text: str) -> float | None:
    """A number in ncu's format, with optional thousands separators; None for ``n/a``, ``inf``, ``nan`` and text."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text.replace(",", ""))
    return value if math.isfinite(value) else None


def _index3(text: str) -> Index3:
    """``(16, 16, 1)`` as three numbers."""
    numbers = [int(part.replace(",", "")) for part in re.findall(r"\d+", text)]
    if len(numbers) != 3:
        raise NcuError(f"ncu printed {text!r} where three sizes were expected")
    return numbers[0], numbers[1], numbers[2]
