"""A ladder as a table, during and after a climb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import torch
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from warpwise.lab import Entry, Ladder, Point, Recorded, Timing, Verdict
from warpwise.lab.ladder import group_notes
from warpwise.lab.timing.timing import duration, rate_text
from warpwise.lab.verify.verdict import Step, dtype_name
from warpwise.operation import Case, Op, Rung

MARKS = {"right": "[green]✓ right[/]", "wrong": "[bold red]✗ wrong[/]", "untested": "[yellow]– untested[/]"}
TIMING_MARKS = (
    ("≈", "the interval is wider than requested"),
    ("↓", "the SM clock was low"),
    ("+", "includes launch overhead"),
)
STAGES = {
    "impostors": "trying impostors",
    "verify": "verifying",
    "shrink": "minimising a failure",
    "reference": "reference",
    "gradient": "verifying the gradient",
    "time": "timing",
}


class ProgressLines:
    """Progress for a standard output that is not a terminal: a line on standard error for each rung and each point."""

    def __init__(self, op: str) -> None:
        self.op = op
        self.printed = set[tuple[str, str]]()

    def update(self, step: Step) -> None:
        what = step.detail if step.stage == "time" else step.rung
        if step.stage != "impostors" and (step.stage, what) not in self.printed:
            self.printed.add((step.stage, what))
            click.echo(f"{self.op}: {STAGES[step.stage]} {what}".rstrip(), err=True)


class LadderTable:
    """Rungs with verdicts, then times at each point. Renders its current state."""

    def __init__(self, op: Op, rungs: Sequence[Rung]) -> None:
        self.op, self.rungs = op, rungs
        self.verdicts: dict[str, Verdict] = {}
        self.points: list[Point] = []
        self.now: Step | None = None
        self.ladder: Ladder | None = None
        self.shown: tuple[Case, torch.dtype] | None = None
        self.named = False

    def update(self, step: Step) -> None:
        """Add the result of a step."""
        self.now = step
        if isinstance(step.result, Verdict):
            self.verdicts[step.result.rung] = step.result
        elif isinstance(step.result, Point):
            self.points.append(step.result)

    def finish(self, ladder: Ladder, size: Case, dtype: torch.dtype, named: bool = False) -> None:
        """Show the complete ``ladder``, with the times recorded at ``size`` in ``dtype``.

        If there are none, those of the first recorded size are shown, or none if the user ``named`` the size.
        """
        self.ladder, self.now, self.points = ladder, None, list(ladder.points)
        self.verdicts = {row.rung: row.verdict for row in ladder.rows}
        self.shown, self.named = (size, dtype), named

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        place = self.ladder.place if self.ladder else ""
        yield Text.from_markup(
            f"[bold]{self.op.name}[/]  {escape(self.op.spec.summary)}{f'  [dim]{escape(place)}[/]' if place else ''}"
        )
        if not self.points:
            yield _fitting(self._verdicts(), console, options)
        for point in self.points:
            yield _fitting(self._timed(point), console, options)
        if self.now:
            step = self.now
            yield Text(
                f"{STAGES[step.stage]} {step.rung} {step.detail} ({step.done}/{step.total})", style="dim", no_wrap=True
            )

    def _verdicts(self) -> Table:
        """Verdicts only; on a CPU also the times recorded on a GPU."""
        recorded = self.ladder.recorded if self.ladder else None
        table = _table("rung", "idea", "verdict", "cases", "seconds")
        chosen = self._recorded_point(recorded)
        if recorded and chosen:
            case, dtype = chosen
            for heading in ("recorded", "rate", "of ceiling", "× best"):
                table.add_column(heading, justify="right", style="dim", no_wrap=True)
            table.caption = (
                f"recorded on {recorded.device}, {recorded.date[:10]}, {case}, {dtype_name(dtype)}: not measured here"
            )
            table.caption_justify = "left"
        for rung in self.rungs:
            verdict = self.verdicts.get(rung.name)
            cells = [rung.name, rung.idea, _mark(verdict), _count(verdict), f"{verdict.seconds:.1f}" if verdict else ""]
            if recorded and chosen:
                cells += _recorded_cells(recorded.entry(rung.name, chosen[0], chosen[1]))
            table.add_row(*cells)
        if recorded and chosen:
            for name in recorded.opponents(*chosen):
                table.add_row(name, "", "", "", "", *_recorded_cells(recorded.entry(name, *chosen)), style="cyan")
        return table

    def _recorded_point(self, recorded: Recorded | None) -> tuple[str, torch.dtype] | None:
        """The name and the dtype of the recorded case to show, as ``finish`` describes them."""
        if recorded is None or self.shown is None:
            return None
        size, dtype = self.shown
        points = recorded.points()
        same = [(case.name, kind) for case, kind in points if kind == dtype and _same(case, size)]
        return same[0] if same else None if self.named else (points[0][0].name, points[0][1])

    def _timed(self, point: Point) -> Table:
        table = _table("rung", "idea", "verdict")
        for heading in ("time", "95 % interval", "rate", "of ceiling", f"× {point.best or 'best'}"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.title, table.title_justify = f"{point.case}, {dtype_name(point.dtype)}", "left"
        ideas = {rung.name: rung.idea for rung in self.rungs}
        timed = {entry.name for entry in point.entries}
        for rung in self.rungs:
            if rung.name not in timed:
                table.add_row(rung.name, rung.idea, _mark(self.verdicts.get(rung.name)), "", "", "", "", "")
        marks = [_marks(entry.timing) for entry in point.entries if entry.timing]
        for entry in point.entries:
            mark = _mark(self.verdicts.get(entry.name)) if entry.kind == "rung" else ""
            style = "cyan" if entry.kind == "opponent" else None
            table.add_row(entry.name, ideas.get(entry.name, ""), mark, *_cells(entry), style=style)
        notes = group_notes((entry.name, entry.note) for entry in point.entries)
        legend = [
            "of ceiling: share of the measured bandwidth or FLOP rate of this GPU",
            f"× {point.best or 'best'}: speed relative to it",
        ]
        legend += [f"{mark} {meaning}" for mark, meaning in TIMING_MARKS if any(mark in each for each in marks)]
        table.caption, table.caption_justify = escape("\n".join((*notes, *point.notes, "; ".join(legend)))), "left"
        return table


def _same(recorded: Case, size: Case) -> bool:
    """True if the two have the same sizes and attributes, whatever their names; a file holds attributes as text."""
    attributes = {name: str(value) for name, value in size.attributes.items()}
    return recorded.sizes == size.sizes and recorded.attributes == attributes


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(
            heading,
            overflow="fold" if heading == "idea" else "ellipsis",
            no_wrap=heading != "idea",
            justify="right" if heading in ("cases", "seconds") else "left",
        )
    return table


def _fitting(table: Table, console: Console, options: ConsoleOptions) -> Table:
    """``table`` without its least important columns if the console is too narrow, named below it; ideas fold first."""
    hidden = []
    for heading, least in _LEAST_IMPORTANT:
        spare = console.measure(table, options=console.options.update(max_width=1000)).maximum - options.max_width
        widths = [
            max(cell_len(str(cell)) for cell in column.cells) for column in table.columns if column.header == heading
        ]
        if spare <= max((width - least for width in widths if least), default=0):
            break
        table.columns = [column for column in table.columns if column.header != heading]
        hidden += [heading] if widths else []
    if hidden:
        note = f"no room for: {', '.join(hidden)}"
        table.caption, table.caption_justify = f"{table.caption}\n{note}" if table.caption else note, "left"
    return table


# With the width below which the column is dropped.
_LEAST_IMPORTANT = (
    ("idea", 16), ("95 % interval", 0), ("seconds", 0), ("cases", 0), ("of ceiling", 0), ("rate", 0),
)  # fmt: skip


def _mark(verdict: Verdict | None) -> str:
    return MARKS[verdict.status] if verdict else ""


def _count(verdict: Verdict | None) -> str:
    return str(sum(result.status != "untested" for result in verdict.cases)) if verdict else ""


def _cells(entry: Entry) -> list[str]:
    timing = entry.timing
    if timing is None or timing.void:
        return ["void" if timing else "", "", "", "", ""]
    ratio = f"{entry.ratio.median:.2f}" if entry.ratio else ""
    rate = rate_text(timing.bound, timing.tflops, timing.gbps)
    return [
        f"{duration(timing.median)}{_marks(timing)}",
        f"{duration(timing.low)} – {duration(timing.high)}",
        rate,
        f"{timing.percent:.0f} %" if timing.percent else "",
        ratio,
    ]


def _marks(timing: Timing) -> str:
    holds = (not timing.converged, timing.throttled, timing.exposed)
    return "".join(mark for (mark, _), one in zip(TIMING_MARKS, holds, strict=True) if one)


def _recorded_cells(entry: dict[str, Any] | None) -> list[str]:
    timing = entry["timing"] if entry else None
    if not timing or timing["void"] or timing["median_s"] is None:
        return ["", "", "", ""]
    rate = rate_text(timing["bound"], timing["tflops"], timing["gbps"])
    percent = f"{timing['percent']:.0f} %" if timing["percent"] else ""
    return [
        duration(timing["median_s"]),
        rate,
        percent,
        f"{entry['ratio']['median']:.2f}" if entry and entry["ratio"] else "",
    ]
