"""The parts of a page for one size and dtype: headline figures, speed-ups, ladder and roofline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from warpwise.lab.ladder import group_notes
from warpwise.lab.report import charts
from warpwise.lab.report import format as fmt
from warpwise.lab.report.collected import Collected, MeasuredPoint
from warpwise.lab.report.explained import Explained
from warpwise.lab.report.html import Table, render
from warpwise.lab.report.roofline import roofline
from warpwise.lab.store import Measurement
from warpwise.lab.timing.timing import duration


def panel(collected: Collected, point: MeasuredPoint, shown: bool) -> Markup:
    """The section of one point, hidden unless ``shown``."""
    order = collected.rungs
    paid, unpaid = ideas(collected, point)
    return render(
        "panel.html",
        point=point,
        key=key(point),
        shown=shown,
        figures=figures_of(collected, point),
        paid=paid,
        unpaid=unpaid,
        wide=Markup(charts.ladder(point, order)),
        narrow=Markup(charts.ladder(point, order, narrow=True)),
        caption=_caption(collected, point),
        listed=figures(point, order),
    )


def key(point: MeasuredPoint) -> str:
    """The identifier of a point in the page."""
    return f"{point.case} {point.dtype} {' '.join(str(size) for size in point.sizes.values())}"


def label(point: MeasuredPoint) -> str:
    """The label of a point in the list of sizes and dtypes."""
    return f"{point.case} · {point.dtype} · {point.size}"


@dataclass(frozen=True)
class Figure:
    """A number in large type, what it is, and a line below; ``css`` is "ahead" or "behind"."""

    value: str
    head: str
    text: str
    css: str = ""


def figures_of(collected: Collected, point: MeasuredPoint) -> list[Figure]:
    """The best rung's time, its share of the ceiling, and its speed against the best opponent; none without a best
    rung.
    """
    best, rival = point.best, point.rival
    if best is None or not best.median:
        return []
    shown = [Figure(duration(best.median), best.name, f"the best rung at {point.case}, {point.size}, {point.dtype}")]
    roof = fmt.ceiling(point)
    if best.percent and roof:
        unit, digits = fmt.rate_unit(point), 0 if roof >= 100 else 1
        reached = f"{fmt.rate(best) or 0:,.{digits}f} of {roof:,.{digits}f} {unit}"
        shown.append(Figure(fmt.percent(best), f"of {fmt.ceiling_name(point, collected.device)}", reached))
    if rival is not None and rival.median:
        interval = f"{best.ratio.low:.2f} to {best.ratio.high:.2f}; " if best.ratio else ""
        others = [f"{one.name} takes {duration(one.median)}" for one in point.opponents if one.median]
        css = "ahead" if best.median <= rival.median else "behind"
        shown.append(Figure(fmt.against(point), f"the speed of {rival.name}", f"{interval}{', '.join(others)}", css))
    return shown


@dataclass(frozen=True)
class Idea:
    """A rung beside the best one before it: ``gain`` is "×1.84", ``short`` its number."""

    name: str
    gain: str
    idea: str

    @property
    def short(self) -> str:
        return charts.short(self.name)


def ideas(collected: Collected, point: MeasuredPoint) -> tuple[list[Idea], list[Idea]]:
    """The rungs that were faster than the best before them, and those that were not."""
    about = {rung.name: rung.idea for rung in collected.op.rungs}
    found = [step for step in fmt.steps(point, collected.rungs) if step.factor is not None]
    made = [
        (step.is_faster, Idea(step.entry.name, fmt.gain(step.factor or 0), about.get(step.entry.name, "")))
        for step in found
    ]
    return [idea for paid, idea in made if paid], [idea for paid, idea in made if not paid]


def _caption(collected: Collected, point: MeasuredPoint) -> str:
    unit = fmt.rate_unit(point)
    what = {
        "GB/s": "Bytes per second, counting each byte that the operation must move once.",
        "TFLOP/s": "FLOPs of the operation per second.",
        "calls/s": "Calls per second.",
    }[unit]
    named = ((charts.short(one.name) if one.verdict == "untested" else one.name, one.message) for one in point.entries)
    notes = [f"{note}." for note in group_notes(named)]
    notes += [
        f"{one.name} runs only if the caller names it."
        for one in point.rungs
        if one.median and one.name in point.by_name
    ]
    where = f"Measured on {collected.device}, {point.run.started:%Y-%m-%d}."
    return " ".join([what, where, "Ticks at the bars' ends are 95 % intervals.", *notes, *point.notes])


def figures(point: MeasuredPoint, order: tuple[str, ...]) -> Table:
    """The ladder's figures."""
    rival = point.rival.name if point.rival else ""
    gains = {step.entry.name: step.factor for step in fmt.steps(point, order)}
    rows = []
    for one in charts.ladder_rows(point, order):
        factor = gains.get(one.name)
        rows.append(
            [
                one.name,
                *_cells(one),
                fmt.gain(factor) if factor else "",
                "; ".join(filter(None, (one.message, fmt.marks(one)))),
            ]
        )
    heads = [
        "",
        "time",
        "95 % interval",
        "samples",
        "rate",
        "of ceiling",
        f"× {rival}" if rival else "ratio",
        "step",
        "notes",
    ]
    return Table(heads, rows, f"{point.case}, {point.size}, {point.dtype}")


def _cells(one: Measurement) -> list[str]:
    if not one.median:
        return ["not timed", "", "", "", "", ""]
    interval = one.interval
    spread = f"{duration(interval.low)} – {duration(interval.high)}" if interval else ""
    return [duration(one.median), spread, str(one.samples), fmt.rate_words(one), fmt.percent(one), fmt.ratio(one)]


def across(collected: Collected, points: list[MeasuredPoint]) -> list[Markup]:
    """One dtype over its sizes: rate and time; none with a single size."""
    if len(points) < 2:
        return []
    return [Markup(charts.sizes(points, collected.rungs, what)) for what in ("rate", "time")]


def roof(collected: Collected, point: MeasuredPoint) -> tuple[Markup, str]:
    """The roofline of one point, and a caption that explains the marks; both empty without data."""
    drawn = roofline(point, collected.roofs, collected.counters)
    counters = collected.counters
    counted = counters and any(counters.moved(one.name, point.case, point.dtype) for one in point.rungs)
    filled = "Filled: DRAM bytes as ncu counted them. " if counted else ""
    caption = (
        f"{filled}Hollow: assuming that each byte is moved once. "
        "Circles CUDA, triangles Triton, squares opponents. Ceilings as measured."
    )
    return Markup(drawn), caption if drawn else ""


def predicted(collected: Collected, explained: Mapping[str, Explained]) -> Markup:
    """The section shown instead of times if nothing was timed: the model's predictions, labelled as such."""
    rows, at = [], ""
    for name in collected.rungs:
        one = explained.get(name)
        if one is not None and one.seconds:
            rows.append((name, one.seconds, ", ".join(dict.fromkeys(launch.limiter for launch in one.launches))))
            device = one.launches[0].device
            at = f"{', '.join(f'{key} {size}' for key, size in one.sizes.items())}, {one.dtype}, on one {device}"
    places = ", ".join(dict.fromkeys(one.place for found in collected.verdicts.values() for one in found if one.on_cpu))
    listed = Table(
        ["", "predicted", "limited by"], [(name, duration(seconds), limiter) for name, seconds, limiter in rows]
    )
    return render(
        "predicted.html",
        places=places.removeprefix("cpu: "),
        at=at,
        listed=listed,
        wide=Markup(charts.predictions(rows) if rows else ""),
        narrow=Markup(charts.predictions(rows, narrow=True) if rows else ""),
    )
