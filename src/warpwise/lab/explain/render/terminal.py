"""An explanation as rows of styled text, for a terminal of any width, with or without colour."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warpwise.lab.display import renders
from warpwise.lab.explain.model import source_lines
from warpwise.lab.explain.model.explanation import Explanation, Line
from warpwise.lab.explain.model.source_lines import Column
from warpwise.lab.explain.render import lanes
from warpwise.lab.explain.render.format import (
    LANE_COLOURS,
    bar,
    count,
    dimensions,
    heat,
    listed,
    percent,
    seconds,
    size,
    times,
)

Span = tuple[str, str]
StyledLine = list[Span]
HOT, GOOD, BAR = "#e5533a", "#2a9d8f", "#7f97b0"  # legible on dark and light backgrounds
HEAT = ("dim", "#c9a227", "#e08a3c", "#e76f51", f"bold {HOT}")
MARKS = (" ", "░", "▒", "▓", "█")
_NARROWEST_SOURCE, _BAR = 36, 6
_MOST_ROWS = 12  # rows of a request
_MOST_ELSEWHERE = 6  # lines of included headers
_DIGITS = "0123456789abcdefghijklmnopqrstuv"


@renders(Explanation, "text")
def text(explanation: Explanation, width: int, line: int | None = None, all_lines: bool = False) -> str:
    """Plain text, one row per line."""
    return "\n".join(plain(row) for row in rows(explanation, width, line, all_lines))


def rows(
    explanation: Explanation, width: int, line: int | None = None, all_lines: bool = False
) -> Iterator[StyledLine]:
    """All rows, each at most ``width`` (60 or more) columns; ``line`` is the line whose requests are drawn."""
    width = max(width, 60)
    chosen = explanation.line(line) if line is not None else explanation.worst
    for row in _picture(explanation, width, chosen, all_lines):
        yield _clipped(row, width)


def _clipped(row: StyledLine, width: int) -> StyledLine:
    """The row clipped to ``width`` columns."""
    left, kept = width, []
    for text, style in row:
        if left <= 0:
            break
        kept.append((text if len(text) <= left else text[: left - 1] + "…", style))
        left -= len(text)
    return kept


def _picture(explanation: Explanation, width: int, chosen: Line | None, all_lines: bool) -> Iterator[StyledLine]:
    yield from _head(explanation, width)
    yield from _limiter(explanation, width)
    yield from _needs(explanation, width)
    yield from _hints(explanation, width)
    yield from _source(explanation, width, chosen, all_lines)
    if explanation.accesses:
        yield from _accesses(explanation, width)
    if chosen is not None:
        yield from _lanes(explanation, chosen, width)
    yield from _caveats(explanation, width)


def plain(row: StyledLine) -> str:
    """The row without styles."""
    return "".join(text for text, _ in row).rstrip()


@renders(Explanation, "rich")
def rich_rows(explanation: Explanation, console: Any, width: int) -> Iterator[Any]:
    """The rows as rich's ``Text``, made by its console, so that this module does not import rich."""
    for row in rows(explanation, width):
        yield rich_text(row, console)


def rich_text(row: StyledLine, console: Any) -> Any:
    """One row as rich's ``Text``."""
    while len(row) > 1 and not row[-1][0].strip():
        row = row[:-1]
    marked = "".join(f"[{style}]{_escaped(text)}[/]" if style else _escaped(text) for text, style in row)
    made = console.render_str(marked, markup=True, emoji=False, highlight=False)
    made.no_wrap, made.overflow = True, "crop"
    return made


def _escaped(text: str) -> str:
    """Escape square brackets, which are rich's markup."""
    text = text.replace("[", "\\[")
    return text + " " if text.endswith("\\") else text


def _heading(title: str, width: int) -> Iterator[StyledLine]:
    """An empty line, then the title and a rule."""
    yield [("", "")]
    yield [(f"── {title} ", "bold"), ("─" * max(0, width - len(title) - 4), "dim")]


def _wrapped(text: str, width: int, indent: str = "  ", first: str = "", style: str = "") -> Iterator[StyledLine]:
    for part in textwrap.wrap(text, width, initial_indent=first or indent, subsequent_indent=indent):
        yield [(part, style)]


def _head(explanation: Explanation, width: int) -> Iterator[StyledLine]:
    facts = f"{explanation.target} · grid {dimensions(explanation.grid)} · block {dimensions(explanation.block)}"
    if explanation.sampled:
        facts += f" · sampled {explanation.sampled}"
    if len(explanation.kernel) + len(facts) + 2 <= width:
        gap = width - len(explanation.kernel) - len(facts)
        yield [(explanation.kernel, "bold cyan"), (" " * gap, ""), (facts, "dim")]
    else:
        yield [(explanation.kernel, "bold cyan")]
        yield [(facts, "dim")]


def _limiter(explanation: Explanation, width: int) -> Iterator[StyledLine]:
    expected = explanation.prediction
    if expected is None:
        return
    yield [("", "")]
    yield [
        (f"{seconds(expected.time)} predicted", "bold"),
        (" on one ", ""),
        (expected.device, ""),
        (", limited by ", ""),
        (expected.limiter, f"bold {HOT}"),
    ]
    if expected.excluded:
        yield from _wrapped(f"without {expected.excluded}", width, "", style=HOT)
    yield [(f"accessing each distinct byte once takes {seconds(expected.floor)}", "dim")]
    ordered = sorted(expected.units.items(), key=lambda item: -item[1])
    longest = ordered[0][1] or 1.0
    for name, needed in ordered[:6]:
        demand = expected.demands.get(name)
        what = f"{count(demand.amount)} {demand.what}" if demand else ""
        style = HOT if name == expected.limiter else ""
        room = max(8, min(40, width - 60))
        yield [
            (f"  {name:<14}", style),
            (bar(needed / longest, room), style or BAR),
            (f" {seconds(needed):>8}", style),
            (f"  {what}", "dim"),
        ]


def _needs(explanation: Explanation, width: int) -> Iterator[StyledLine]:
    needs, fits = explanation.resources, explanation.occupancy
    yield [("", "")]
    spills = f"{size(needs.spill_stores)} spilled per thread" if needs.spill_stores else "no spills"
    text = f"{needs.registers} registers · {size(needs.shared)} of shared memory · {spills}"
    text += f" · {needs.instructions:,} instructions"
    yield from _labelled("Resources  ", text, width, HOT if needs.spill_stores else "")
    if fits is None:
        return
    if fits.refusal:
        yield from _labelled("Occupancy  ", fits.refusal, width, f"bold {HOT}")
        return
    blocks = "1 block" if fits.blocks == 1 else f"{fits.blocks} blocks"
    warps = "1 warp" if fits.warps_per_block == 1 else f"{fits.warps_per_block} warps"
    text = f"{percent(fits.fraction)}: {blocks} of {warps} an SM, limited by {listed(fits.binding)}"
    waves = explanation.metrics.get("launch__waves_per_multiprocessor")
    if waves is not None:
        text += f" · {waves:.2f} waves"
    yield from _labelled("Occupancy  ", text, width, "")
    if explanation.unsupported:
        yield from _labelled("Execution  ", f"not possible: {explanation.unsupported}", width, "bold #e08a3c")
    yield from _agreement(explanation, width)


def _agreement(explanation: Explanation, width: int) -> Iterator[StyledLine]:
    agrees = explanation.agrees
    style = {"yes": GOOD, "no": f"bold {HOT}"}.get(agrees.status, "#c9a227")
    head = {"yes": "agree", "no": "DISAGREE"}.get(agrees.status, "not compared")
    yield from _labelled("Outputs    ", f"{head}: {agrees.text}", width, style)


def _labelled(label: str, text: str, width: int, style: str) -> Iterator[StyledLine]:
    """A label and its text, with continuation lines indented."""
    for number, part in enumerate(textwrap.wrap(text, width - len(label))):
        yield [(label if not number else " " * len(label), "bold"), (part, style)]


def _hints(explanation: Explanation, width: int) -> Iterator[StyledLine]:
    if not explanation.hints:
        return
    yield from _heading("Hints", width)
    for hint in explanation.hints:
        style = "bold #e08a3c" if hint.kind == "OPT" else f"bold {BAR}"
        gain = f"  up to {times(hint.speedup)} faster" if hint.speedup and hint.speedup >= 1.05 else ""
        where = f"  {Path(hint.file).name}:{hint.line}" if hint.line else ""
        yield [(f"{hint.kind} ", style), (hint.title, "bold"), (gain, GOOD), (where, "dim")]
        yield from _wrapped(hint.text, width, "    ")
        if hint.idea:
            yield from _wrapped(hint.idea, width, "      ", "    → ", "italic")


def _source(explanation: Explanation, width: int, chosen: Line | None, all_lines: bool) -> Iterator[StyledLine]:
    own = explanation.main_file
    if own is None:
        return
    by_number = {line.number: line for line in explanation.lines if line.file == own}
    columns = _fitting(source_lines.shown_columns(explanation.lines), width)
    if not columns:
        return
    most = {column.key: _whole(explanation, column) for column in columns}
    room = width - 8 - sum(_column_width(column) for column in columns)
    yield from _heading(Path(own).name, width)
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


def _fitting(columns: list[Column], width: int) -> list[Column]:
    """The columns that fit beside the source; memory traffic has priority."""
    order = ("sectors", "wavefronts", "stall_cycles", "local_sectors", "executed")
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


def _accesses(explanation: Explanation, width: int) -> Iterator[StyledLine]:
    """Loads and stores counted by Triton's interpreter."""
    yield from _heading("Loads and stores of the program, from the interpreter", width)
    for one in explanation.accesses:
        factor = one.sectors / one.ideal_sectors if one.ideal_sectors else 1.0
        yield [
            (f"  {one.line:>5} ", "dim"),
            (f"{one.what:<6} {one.tensor:<14}"[:22], ""),
            (f"{size(one.bytes):>9}", ""),
            (f"  {count(one.requests):>7} requests  {count(one.sectors):>7} sectors", ""),
            (f" {times(factor):>5}", f"bold {HOT}" if factor > 1.05 else GOOD),
            (f"  {one.vector} bytes a lane", "dim"),
        ]


def _lanes(explanation: Explanation, line: Line, width: int) -> Iterator[StyledLine]:
    for request in lanes.requests(explanation, line)[:2]:
        yield from _heading(f"{line}, one warp's {request.action}: {request.kind} memory", width)
        yield from lane_rows(request, width)


def lane_rows(request: lanes.Request, width: int) -> Iterator[StyledLine]:
    """The rows of one request: lane numbers in the words or banks that they access."""
    plural = "" if request.cost == 1 else "s"
    cost: StyledLine = [
        (f"  {request.active} lanes, {request.bytes} bytes each: ", ""),
        (f"{request.cost} {request.unit}{plural}", "bold"),
    ]
    if request.cost > request.ideal:
        cost.append((f" where {request.ideal} would be ideal ({times(request.factor)})", f"bold {HOT}"))
    else:
        cost.append((", which is ideal", GOOD))
    yield cost
    yield from _wrapped(request.pattern, width)
    code = f"{request.text} · block {request.block}, warp {request.warp}"
    more = f" · {request.alike} equal instructions" if request.alike > 1 else ""
    yield from _wrapped(f"{code}{more}", width, style="dim")
    label = max((len(row.label) for row in request.rows), default=0)
    label = max(label, len("bank"))
    wide = width >= label + 3 + 32 * 3 + 3 * 2
    step = 3 if wide else 1
    if request.kind == "shared":
        heads = [f"{bank:>{step}}" if wide else _DIGITS[bank] for bank in range(32)]
        yield [(f"  {'bank':>{label}} " + "".join(_spaced(heads, wide)), "dim")]
    else:
        heads = (
            [f"sector {sector}".ljust(8 * step) for sector in range(4)]
            if wide
            else [f"s{sector}".ljust(8) for sector in range(4)]
        )
        yield [(" " * (label + 3) + ("  " if wide else " ").join(heads), "dim")]
    for row in request.rows[:_MOST_ROWS]:
        yield [(f"  {row.label:>{label}} ", "dim"), *_lane_cells(row, request.kind, wide)]
    if len(request.rows) > _MOST_ROWS:
        what = "wavefronts" if request.kind == "shared" else "lines of 128 bytes"
        yield [(f"  {'⋮':>{label}}  {len(request.rows) - _MOST_ROWS} more {what}", "dim")]
    if request.counted != request.cost:
        yield [(f"  The hardware counts {request.cost} {request.unit}{plural}.", "dim")]


def _spaced(cells: list[str], wide: bool) -> Iterator[str]:
    for number, cell in enumerate(cells):
        yield (("  " if wide else " ") if number and number % 8 == 0 else "") + cell


def _lane_cells(row: lanes.MemoryRow, kind: str, wide: bool) -> StyledLine:
    made: StyledLine = []
    for number, cell in enumerate(row.cells):
        if number and number % 8 == 0:
            made.append(("  " if wide else " ", ""))
        if cell:
            text = f"{cell[0]:>2}" if wide else _DIGITS[cell[0]]
            made.append((text, f"#101418 on {LANE_COLOURS[cell[0]]}"))
            if wide:
                made.append(("+" if len(cell) > 1 else " ", "dim"))
        else:
            fetched = kind != "shared" and row.sectors[number // 8]
            made.append((("·· " if wide else "·") if fetched else ("   " if wide else " "), "dim"))
    return made


def _caveats(explanation: Explanation, width: int) -> Iterator[StyledLine]:
    if not explanation.caveats:
        return
    yield from _heading("Limits of these counters", width)
    for text in explanation.caveats:
        yield from _wrapped(text, width, "    ", "  · ", "dim")
