"""The page of one operation."""

from __future__ import annotations

from collections.abc import Mapping

from warpwise.lab.report import panels, tables
from warpwise.lab.report.collected import Collected, Point
from warpwise.lab.report.explained import Explained
from warpwise.lab.report.markup import Markup, document, element, inline
from warpwise.lab.report.readme import Told, read
from warpwise.lab.report.rungs import rung_section


def page(collected: Collected, explained: Mapping[str, Explained] | None = None, index: str = "index.html") -> str:
    """The whole document; ``index`` is where its first link leads."""
    told = told_of(collected)
    chosen = shown_first(collected)
    explained = explained or {}
    body = [
        bar(_chooser(collected, chosen), index),
        element("header", element("h1", collected.name), element("p", inline(collected.op.spec.summary), class_="summary"), _stamp(collected, chosen)),
    ]  # fmt: skip
    if collected.points:
        body += [panels.panel(collected, point, point is chosen) for point in collected.points]
        body.append(_beyond(collected, chosen))
        body += [tables.counted(collected, point, point is chosen) for point in collected.points]
    else:
        body.append(panels.predicted(collected, explained))
    best = chosen.best.name if chosen and chosen.best else ""
    rungs = [rung_section(collected, name, told, explained.get(name), chosen, name == best) for name in collected.rungs]
    opener = element("button", "open all", type="button", id="all", aria_pressed="false")
    body.append(element("section", element("h2", "The rungs ", opener), *rungs, class_="rungs"))
    if told.paragraphs:
        notes = [element("p", element("b", f"{lead}. "), inline(text)) for lead, text in told.paragraphs]
        body.append(element("section", element("h2", "Notes"), *notes, class_="notes"))
    if listed := tables.verdicts(collected):
        body.append(element("section", element("h2", "Verdicts"), element("p", _judged(), class_="how"), listed))
    body.append(element("section", element("h2", "Where and with what"), tables.environment(collected)))
    return document(
        f"{collected.name} · Warpwise",
        bar_style(collected),
        element("main", *body),
        element("div", id="tip", role="status", hidden=True),
    )


def bar_style(collected: Collected) -> Markup:
    """Nothing but a mark for tests and scripts: which operation this page is of."""
    return Markup(f'<meta name="warpwise-op" content="{element("i", collected.name)[3:-4]}">')


def bar(middle: Markup, index: str = "") -> Markup:
    """The line at the top: back to the index, the point that is shown, light or dark."""
    home = element("a", "Warpwise", href=index) if index else element("b", "Warpwise")
    toggle = element(
        "button",
        element("span", "theme: "),
        element("span", "auto", id="worn"),
        type="button",
        id="theme",
        title="light, dark, or as the system has it",
    )
    return element("nav", home, middle, toggle)


def shown_first(collected: Collected) -> Point | None:
    """The point to show first: the one that the README's predictions are for, else the first."""
    for case, dtype in told_of(collected).points:
        for point in collected.points:
            if (point.case, point.dtype) == (case, dtype):
                return point
    return next(iter(collected.points), None)


def told_of(collected: Collected) -> Told:
    """What the README beside the operation's rungs tells."""
    return read(collected.op.rungs[0].source.parent) if collected.op.rungs else Told()


def _chooser(collected: Collected, chosen: Point | None) -> Markup:
    if len(collected.points) < 2:
        return Markup("<span></span>")
    options = [
        element(
            "option", panels.label(point), value=panels.key(point), data_dtype=point.dtype, selected=point is chosen
        )
        for point in collected.points
    ]
    return element("label", element("span", "size and dtype"), element("select", *options, id="point"))


def _stamp(collected: Collected, chosen: Point | None) -> Markup:
    if chosen is None:
        return Markup("")
    date = f"{chosen.run.started:%Y-%m-%d}"
    return element(
        "p",
        f"{collected.device}, {date}"
        if collected.measured_on_gpu
        else f"timed on a CPU ({collected.device.removeprefix('cpu: ')}), {date}",
        class_="stamp",
    )


def _beyond(collected: Collected, chosen: Point | None) -> Markup:
    """The roofline beside the curves over the sizes."""
    roofs = [panels.roof(collected, point, point is chosen) for point in collected.points]
    dtypes = list(dict.fromkeys(point.dtype for point in collected.points))
    curves = [
        panels.across(collected, [point for point in collected.points if point.dtype == dtype], chosen is not None and dtype == chosen.dtype)
        for dtype in dtypes
    ]  # fmt: skip
    parts = []
    if any(roofs):
        parts.append(element("div", element("h2", "The roofline"), *roofs, class_="roof"))
    if any(curves):
        parts.append(element("div", element("h2", "Over the sizes"), *curves, class_="over"))
    return element("section", *parts, class_="beyond") if parts else Markup("")


def _judged() -> str:
    return (
        "Every rung was compared with a float64 reference in every case it takes, ragged, empty, strided and huge-valued ones among them. "
        "An error of 1 is the largest that rounding explains."
    )
