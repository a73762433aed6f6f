"""What a page shows of one point: the best rung against whom and against which ceiling, what paid, the ladder, the roofline."""

from __future__ import annotations

from collections.abc import Mapping

from warpwise.lab.ladder import told_once
from warpwise.lab.report import charts
from warpwise.lab.report import format as fmt
from warpwise.lab.report.collected import Collected, Point
from warpwise.lab.report.explained import Explained
from warpwise.lab.report.markup import Markup, element, folded, joined, table
from warpwise.lab.report.roofline import roofline
from warpwise.lab.store import Measurement
from warpwise.lab.timing.timing import duration


def panel(collected: Collected, point: Point, shown: bool) -> Markup:
    """Everything of one point; only that of the chosen one is ``shown``."""
    order = collected.rungs
    ladder = element(
        "figure", Markup(charts.ladder(point, order)), Markup(charts.ladder(point, order, narrow=True)),
        element("figcaption", _caption(collected, point)), class_="ladder",
    )  # fmt: skip
    return element(
        "section", lead(collected, point), element("h2", "The ladder"), ladder, folded("the figures as a table", figures(point, order)),
        hidden=not shown, data_point=key(point), class_="panel",
    )  # fmt: skip


def key(point: Point) -> str:
    """What a point is called in the page."""
    return f"{point.case} {point.dtype} {' '.join(str(size) for size in point.sizes.values())}"


def label(point: Point) -> str:
    """What a reader chooses it by."""
    return f"{point.case} · {point.dtype} · {point.size}"


def _figure(value: str, head: str, text: str, kind: str = "") -> Markup:
    big = element("b", value)
    return element(
        "div", big, element("span", head, class_="head"), element("span", text), class_=f"figure {kind}".strip()
    )


def lead(collected: Collected, point: Point) -> Markup:
    """How fast, how far from the ceiling, against whom; and which ideas paid."""
    best, rival = point.best, point.rival
    if best is None or not best.median:
        return element("p", f"No rung was both right and timed at {point.case}, {point.dtype}.", class_="none")
    shown = [_figure(duration(best.median), best.name, f"the best rung at {point.case}, {point.size}, {point.dtype}")]
    roof = fmt.ceiling(point)
    if best.percent and roof:
        unit = fmt.rate_unit(point)
        reached = (
            f"{fmt.rate(best) or 0:,.0f} of {roof:,.0f} {unit}"
            if roof >= 100
            else f"{fmt.rate(best) or 0:.1f} of {roof:.1f} {unit}"
        )
        shown.append(_figure(fmt.percent(best), f"of {fmt.ceiling_name(point, collected.device)}", reached))
    if rival is not None and rival.median:
        interval = f"{best.ratio.low:.2f} to {best.ratio.high:.2f}; " if best.ratio else ""
        others = [f"{one.name} takes {duration(one.median)}" for one in point.opponents if one.median]
        value, kind = fmt.against(point), "ahead" if best.median <= rival.median else "behind"
        shown.append(_figure(value, f"the speed of {rival.name}", f"{interval}{', '.join(others)}", kind))
    return element("div", element("div", *shown, class_="figures"), paid(collected, point), class_="lead")


def paid(collected: Collected, point: Point) -> Markup:
    """The rungs that were faster than the best before them, and in a line those that were not."""
    found = fmt.steps(point, collected.rungs)
    ideas = {rung.name: rung.idea for rung in collected.op.rungs}
    rows = [
        element(
            "li", element("b", fmt.gain(step.factor or 0)),
            element("span", element("a", step.entry.name, href=f"#{step.entry.name}"), element("span", ideas.get(step.entry.name, ""))),
        )
        for step in found
        if step.paid
    ]  # fmt: skip
    rest = [
        joined(element("a", charts.short(step.entry.name), href=f"#{step.entry.name}"), Markup(f"&nbsp;{fmt.gain(step.factor)}"))
        for step in found
        if step.factor is not None and not step.paid
    ]  # fmt: skip
    if not rows and not rest:
        return Markup("")
    not_here = (
        element("p", Markup("did not, at this size: "), joined(*rest, by=", "), class_="rest") if rest else Markup("")
    )
    none = element("p", "None was faster than the first rung.", class_="rest") if not rows else Markup("")
    heading = element("h2", "Ideas that paid", element("small", " against the best rung before"))
    return element("div", heading, element("ol", *rows), none, not_here, class_="paid")


def _caption(collected: Collected, point: Point) -> Markup:
    unit = fmt.rate_unit(point)
    what = {
        "GB/s": "Bytes that the operation must move, each once, a second.",
        "TFLOP/s": "FLOPs that the operation must do, a second.",
        "calls/s": "Calls a second.",
    }[unit]
    named = ((charts.short(one.name) if one.verdict == "untested" else one.name, one.message) for one in point.entries)
    notes = [f"{note}." for note in told_once(named)]
    notes += [
        f"{one.name} runs for who names it alone." for one in point.rungs if one.median and one.name in point.by_name
    ]
    where = f"Measured on {collected.device}, {point.run.started:%Y-%m-%d}."
    return joined(
        f"{what} {where} Ticks at the bars' ends are 95 % intervals. ", *(f"{note} " for note in (*notes, *point.notes))
    )


def figures(point: Point, order: tuple[str, ...]) -> Markup:
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
    return table(heads, rows, f"{point.case}, {point.size}, {point.dtype}")


def _cells(one: Measurement) -> list[str]:
    if not one.median:
        return ["not timed", "", "", "", "", ""]
    interval = one.interval
    spread = f"{duration(interval.low)} – {duration(interval.high)}" if interval else ""
    return [duration(one.median), spread, str(one.samples), fmt.rate_words(one), fmt.percent(one), fmt.ratio(one)]


def across(collected: Collected, points: list[Point], shown: bool) -> Markup:
    """One dtype over its sizes: rate and time. Nothing to draw with a single size."""
    if len(points) < 2:
        return Markup("")
    made = [element("figure", Markup(charts.sizes(points, collected.rungs, what))) for what in ("rate", "time")]
    return element("div", *made, hidden=not shown, data_dtype=points[0].dtype, class_="charts")


def roof(collected: Collected, point: Point, shown: bool) -> Markup:
    """The roofline of one point, with what its marks mean."""
    drawn = roofline(point, collected.roofs, collected.counters)
    if not drawn:
        return Markup("")
    counted = "Filled: DRAM bytes as ncu counted them. " if collected.counters and any(
        collected.counters.moved(one.name, point.case, point.dtype) for one in point.rungs
    ) else ""  # fmt: skip
    caption = f"{counted}Hollow: no byte moved twice. Circles CUDA, triangles Triton, squares opponents. Ceilings as measured."
    return element("figure", Markup(drawn), element("figcaption", caption), hidden=not shown, data_point=key(point))


def predicted(collected: Collected, explained: Mapping[str, Explained]) -> Markup:
    """In place of times, where nothing was timed: what the executed machine code predicts, and said to be so."""
    rows, at = [], ""
    for name in collected.rungs:
        one = explained.get(name)
        if one is not None and one.seconds:
            rows.append((name, one.seconds, ", ".join(dict.fromkeys(launch.limiter for launch in one.launches))))
            device = one.launches[0].device
            at = f"{', '.join(f'{key} {size}' for key, size in one.sizes.items())}, {one.dtype}, on one {device}"
    places = ", ".join(dict.fromkeys(one.place for found in collected.verdicts.values() for one in found if one.on_cpu))
    ran = (
        f" GPU kernels ran emulated on {places.removeprefix('cpu: ')}: that tells whether they are right, and nothing of a GPU's speed."
        if places
        else ""
    )
    nothing = element("p", element("b", "Nothing was timed."), ran, class_="none")
    if not rows:
        return element("section", nothing, class_="panel")
    figure = element(
        "figure", Markup(charts.predictions(rows)), Markup(charts.predictions(rows, narrow=True)),
        element("figcaption", f"Predicted, not measured: machine code executed on a CPU, its counters put into a model of the time. {at}."),
        class_="ladder",
    )  # fmt: skip
    listed = table(
        ["", "predicted", "limited by"], [[name, duration(seconds), limiter] for name, seconds, limiter in rows]
    )
    return element(
        "section",
        nothing,
        element("h2", "Predicted times"),
        figure,
        folded("the figures as a table", listed),
        class_="panel",
    )
