"""An explanation as rows of styled text, for a terminal of any width, with or without colour."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warpwise.lab.display import renders
from warpwise.lab.explain.model.explanation import Explanation, Line
from warpwise.lab.explain.render import lanes
from warpwise.lab.explain.render.format import (
    LANE_COLOURS,
    bar,
    count,
    dimensions,
    percent,
    seconds,
    size,
    times,
)
from warpwise.lab.explain.render.source import source_rows
from warpwise.lab.explain.render.styled import BAR, GOOD, HOT, StyledLine, heading, plain, wrapped
from warpwise.lab.explain.words import listed

_MOST_ROWS = 12  # rows of a request
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
    yield from source_rows(explanation, width, chosen, all_lines)
    if explanation.accesses:
        yield from _accesses(explanation, width)
    if chosen is not None:
        yield from _lanes(explanation, chosen, width)
    yield from _caveats(explanation, width)


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
        yield from wrapped(f"without {expected.excluded}", width, "", style=HOT)
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
    yield from heading("Hints", width)
    for hint in explanation.hints:
        style = "bold #e08a3c" if hint.kind == "OPT" else f"bold {BAR}"
        gain = f"  up to {times(hint.speedup)} faster" if hint.speedup and hint.speedup >= 1.05 else ""
        where = f"  {Path(hint.file).name}:{hint.line}" if hint.line else ""
        yield [(f"{hint.kind} ", style), (hint.title, "bold"), (gain, GOOD), (where, "dim")]
        yield from wrapped(hint.text, width, "    ")
        if hint.idea:
            yield from wrapped(hint.idea, width, "      ", "    → ", "italic")


def _accesses(explanation: Explanation, width: int) -> Iterator[StyledLine]:
    """Loads and stores counted by Triton's interpreter."""
    yield from heading("Loads and stores of the program, from the interpreter", width)
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
        yield from heading(f"{line}, one warp's {request.action}: {request.kind} memory", width)
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
    yield from wrapped(request.pattern, width)
    code = f"{request.text} · block {request.block}, warp {request.warp}"
    more = f" · {request.alike} equal instructions" if request.alike > 1 else ""
    yield from wrapped(f"{code}{more}", width, style="dim")
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
    yield from heading("Limits of these counters", width)
    for text in explanation.caveats:
        yield from wrapped(text, width, "    ", "  · ", "dim")
