"""Ladders and timings in a notebook: an HTML fragment whose style sheet applies to itself only."""

from __future__ import annotations

import contextlib
import re
from typing import Any

from markupsafe import Markup

from warpwise.lab.display import renders
from warpwise.lab.ladder import Ladder
from warpwise.lab.report import charts
from warpwise.lab.report import format as fmt
from warpwise.lab.report.collected import MeasuredPoint, RecordedRun, from_ladder, points_of, read_file
from warpwise.lab.report.draw import MissingLibrary
from warpwise.lab.report.format import MARKS
from warpwise.lab.report.html import Cell, Content, Table, render, resource
from warpwise.lab.report.panels import figures
from warpwise.lab.store.records import GRADIENT
from warpwise.lab.timing.timing import Timing, duration, rate_text

_STYLE = """
.ww-lab{background:var(--paper);color:var(--ink);font:14px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
.ww-lab{padding:.8rem 1rem;max-width:1100px}
.ww-lab h2{font-size:1.25rem;margin:0}.ww-lab h3{font-size:.95rem;margin:1rem 0 .3rem}
.ww-lab p{margin:.2rem 0;color:var(--soft)}
.ww-lab .chart{display:block;width:100%;height:auto;overflow:visible}
.ww-lab .chart text{paint-order:stroke;stroke:var(--paper);stroke-width:3px}
.ww-lab .scroll{overflow-x:auto}
.ww-lab table{border-collapse:collapse;font-size:.9em;font-variant-numeric:tabular-nums;margin:0}
.ww-lab tr,.ww-lab td,.ww-lab th{background:none!important;color:inherit;border:0;text-align:left!important}
.ww-lab tr,.ww-lab td,.ww-lab th{padding:.12rem 1rem .12rem 0;white-space:nowrap;vertical-align:baseline}
.ww-lab .right{color:var(--good)}.ww-lab .wrong{color:var(--bad)}.ww-lab .untested{color:var(--soft)}
.ww-lab pre{white-space:pre-wrap;border-left:3px solid var(--bad);padding-left:.7rem;color:inherit;background:none}
.ww-lab .big{font-size:1.6rem;font-weight:600;color:var(--ink);font-variant-numeric:tabular-nums}
.ww-lab summary{cursor:pointer;color:var(--soft)}
"""
_VARIABLES = re.compile(r":root \{(?P<body>.*?)\n\}", re.DOTALL)
_LINK = re.compile(r'<a href="#[^"]*">|</a>')


def _style() -> Markup:
    variables = _VARIABLES.search(resource("page.css"))
    return Markup(f".ww-lab{{{variables['body'] if variables else ''}}}{_STYLE}")


@renders(Ladder, "html")
def ladder_html(ladder: Ladder) -> str:
    """Verdicts, and the bars and figures of each point; on a CPU, the times recorded on a GPU, with their origin."""
    source = from_ladder(ladder)
    order = tuple(row.rung for row in ladder.rows)
    rows: list[list[Content]] = []
    for row in ladder.rows:
        tested = sum(result.status != "untested" for result in row.verdict.cases)
        mark = Cell(MARKS[row.verdict.status], css=row.verdict.status)
        rows.append([row.rung, row.idea, mark, f"{tested} cases"])
    verdicts = [row.verdict for row in ladder.rows]
    if ladder.gradient is not None:
        verdicts.append(ladder.gradient)
        status = ladder.gradient.status
        rows.append([GRADIENT, "", Cell(MARKS[status], css=status), f"{len(ladder.gradient.cases)} cases"])
    on_cpu = ladder.place.startswith("cpu")
    where = f"on a CPU ({ladder.place.removeprefix('cpu: ')}), GPU kernels emulated" if on_cpu else f"on {ladder.place}"
    points = _points(source, order, "Timed")
    if not source.timed and ladder.recorded is not None:
        kept = read_file(ladder.recorded.path) if ladder.recorded.path.is_file() else None
        title = f"Recorded on {ladder.recorded.device}, {ladder.recorded.date[:10]}, not measured here"
        points += _points(kept, order, title)[:1] if kept else []
    return str(
        render(
            "notebook_ladder.html",
            style=_style(),
            ladder=ladder,
            where=where,
            verdicts=Table(["", "idea", "verdict", ""], rows),
            failures=[str(verdict) for verdict in verdicts if verdict.status == "wrong"],
            points=points,
        )
    )


def _points(source: RecordedRun, order: tuple[str, ...], title: str) -> list[dict[str, Any]]:
    return [_point(point, order, title) for point in points_of([source], [], [])]


def _point(point: MeasuredPoint, order: tuple[str, ...], title: str) -> dict[str, Any]:
    """A point's bars, or "" where they cannot be drawn, and its figures."""
    names = (*order, *(one.name for one in point.rungs if one.name not in order))
    drawn = ""
    with contextlib.suppress(MissingLibrary):
        drawn = Markup(_LINK.sub("", charts.ladder(point, names)))
    heading = f"{title}: {point.case}, {point.size}, {point.dtype}"
    return {"title": heading, "picture": drawn, "listed": figures(point, names)}


@renders(Timing, "html")
def timing_html(timing: Timing) -> str:
    """The time, its interval, the rate and where it was measured."""
    share = f"{timing.percent:.0f} % of the ceiling" if timing.percent else ""
    spread = f"95 % interval {duration(timing.low)} to {duration(timing.high)}, {timing.samples} samples"
    facts = [part for part in (rate_text(timing.bound, timing.tflops, timing.gbps), share, spread) if part]
    clock = f", SM clock {timing.clock.median:,.0f} MHz" if timing.clock else ""
    notes = [text for holds, text in fmt.flags(timing.converged, timing.throttled, timing.exposed) if holds]
    place = f"{timing.place}{clock}; {'; '.join([timing.method, *notes])}"
    time = duration(timing.median)
    return str(render("notebook_timing.html", style=_style(), timing=timing, time=time, facts=facts, place=place))
