"""The kernel's source as rows, each line with its counters as bars."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from warpwise.lab.explain.model import source_lines
from warpwise.lab.explain.model.explanation import Explanation, Line
from warpwise.lab.explain.model.source_lines import Column
from warpwise.lab.explain.render.format import LIMITS, bar, count, heat, percent, times
from warpwise.lab.explain.render.styled import GOOD, HOT, StyledLine, heading, wrapped
from warpwise.lab.explain.words import listed

HEAT = ("dim", "#c9a227", "#e08a3c", "#e76f51", f"bold {HOT}")
MARKS = (" ", "░", "▒", "▓", "█")
_NARROWEST_SOURCE, _BAR = 30, 6
_MOST_ELSEWHERE = 6  # lines of included headers
_ORDER = ("sectors", "wavefronts", "stall_cycles", "local_sectors", "executed")
_ISSUED = ("issue slots", "FMA", "ALU", "FP64", "tensor", "SFU (XU)", "uniform", "ADU", "CBU", "LSU issue")
_OF_UNIT = {
    "DRAM": ("sectors",),
    "L2": ("sectors",),
    "atomics": ("sectors",),
    "L1 tag stage": ("sectors",),
    "L1 data stage": ("wavefronts", "sectors"),
    "latency": ("stall_cycles",),
    **dict.fromkeys(_ISSUED, ("executed",)),
}
"""The columns that show the work of a unit."""


def source_rows(explanation: Explanation, width: int, chosen: Line | None, all_lines: bool) -> Iterator[StyledLine]:
    own = explanation.main_file
    if own is None:
        return
    by_number = {line.number: line for line in explanation.lines if line.file == own}
    counted = source_lines.shown_columns(explanation.lines)
    columns = _fitting(explanation, counted, width)
    if not columns:
        return
    most = {column.key: _whole(explanation, column) for column in columns}
    room = width - 8 - sum(_column_width(column) for column in columns)
    yield from heading(f"{Path(own).name}{f', line 1 is {explanation.origin}' if explanation.origin else ''}", width)
    titles = "".join(_title(column).rjust(_column_width(column)) for column in columns)
    yield [(" " * (8 + room) + titles, "dim")]
    text = explanation.sources.get(own, ())
    for number in range(1, len(text) + 1) if all_lines and text else source_lines.numbers(by_number):
        if number is None:
            yield [("     ⋮", "dim")]
            continue
        code = text[number - 1].expandtabs(4) if number <= len(text) else by_number[number].text
        yield _source_row(number, code, by_number.get(number), columns, most, room, chosen)
    elsewhere = [
        line
        for line in explanation.lines
        if line.file != own and any(line.counters.get(column.key) for column in columns)
    ]
    yield from _elsewhere(elsewhere, columns, most, room, chosen, all_lines)
    yield from _legend(columns, chosen, width)
    if dropped := [column.title for column in counted if column not in columns]:
        yield from wrapped(f"not shown, because {width} columns have no room for it: {listed(dropped)}", width)


def _legend(columns: list[Column], chosen: Line | None, width: int) -> Iterator[StyledLine]:
    """What the marks and the columns mean."""
    parts = [f"{''.join(MARKS[1:])} at least {listed([percent(limit) for limit in LIMITS])} of a column's total"]
    parts += ["▶ the line drawn below"] if chosen is not None else []
    parts += [f"{column.title}: {column.explained}" for column in columns]
    yield from wrapped(" · ".join(parts), width, style="dim")


def _elsewhere(
    found: list[Line], columns: list[Column], most: dict[str, float], room: int, chosen: Line | None, all_lines: bool
) -> Iterator[StyledLine]:
    """The lines of included files with the highest counters."""
    found.sort(key=lambda line: -max(_share(line, column, most) for column in columns))
    shown = found if all_lines else found[:_MOST_ELSEWHERE]
    for file in dict.fromkeys(line.file for line in shown):
        yield [(f"  in {Path(file).name}", "dim")]
        for line in sorted((one for one in shown if one.file == file), key=lambda one: one.number):
            yield _source_row(line.number, line.text, line, columns, most, room, chosen)
    if len(found) > len(shown):
        yield [(f"  and {len(found) - len(shown)} more lines of included files: --all-lines shows them", "dim")]


def _source_row(
    number: int,
    code: str,
    line: Line | None,
    columns: list[Column],
    most: dict[str, float],
    room: int,
    chosen: Line | None,
) -> StyledLine:
    hottest = max((heat(_share(line, column, most)) for column in columns), default=0) if line else 0
    mark = "▶" if line is not None and line is chosen else " "
    row: StyledLine = [(f"{number:>5}", HEAT[hottest]), (mark, "bold cyan"), (MARKS[hottest] + " ", HEAT[hottest])]
    code = code if len(code) < room else code[: max(room - 2, 0)] + "…"
    row.append((code.ljust(room), "" if line is not None and line.counters.get("executed") else "dim"))
    for column in columns:
        row += _cell(line, column, most)
    return row


def _cell(line: Line | None, column: Column, most: dict[str, float]) -> StyledLine:
    value = line.counters.get(column.key, 0) if line is not None else 0
    if line is None or not value:
        return [(" " * _column_width(column), "")]
    share = _share(line, column, most)
    text = percent(share) if column.key == "stall_cycles" else count(value)
    made: StyledLine = [(" " + bar(share, _BAR), HEAT[heat(share)]), (f" {text:>7}", "dim" if share < 0.005 else "")]
    if column.best:
        factor = source_lines.ratio(line, column)
        wasteful = factor is not None and factor > 1.05
        style = f"bold {HOT}" if wasteful and share >= 0.005 else "dim" if wasteful else GOOD
        made.append((f" {times(factor) if factor is not None else '':>5}", style))
    return made


def _title(column: Column) -> str:
    return f"{column.title} (×ideal)" if column.best else column.title


def _column_width(column: Column) -> int:
    return _BAR + 9 + (6 if column.best else 0)


def _fitting(explanation: Explanation, columns: list[Column], width: int) -> list[Column]:
    """The columns that fit beside the source: that of the limiting unit first, then memory traffic."""
    limiter = explanation.prediction.limiter if explanation.prediction else ""
    order = list(dict.fromkeys((*_OF_UNIT.get(limiter, ()), *_ORDER)))
    left = width - 8 - _NARROWEST_SOURCE
    kept = []
    for column in sorted(columns, key=lambda column: order.index(column.key)):
        if _column_width(column) <= left:
            left -= _column_width(column)
            kept.append(column.key)
    return [column for column in columns if column.key in kept]


def _whole(explanation: Explanation, column: Column) -> float:
    return sum(line.counters.get(column.key, 0) for line in explanation.lines) or 1.0


def _share(line: Line, column: Column, most: dict[str, float]) -> float:
    return line.counters.get(column.key, 0) / most[column.key]
