"""The charts of a page, as Vega-Lite specifications."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from warpwise.lab.report import format as fmt
from warpwise.lab.report.collected import MeasuredPoint
from warpwise.lab.report.draw import svg
from warpwise.lab.store import Measurement
from warpwise.lab.timing.timing import duration

WIDE, NARROW = 1040, 350
SMALL = (242, 224)
ROW, NARROW_ROW = 24, 38
LETTER = 7.0  # upper estimate of a letter's width in pixels at 12 px
BARS = 470
DURATIONS = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, ',~r') + ' s'"
    " : datum.value >= 1e3 ? format(datum.value / 1e3, '~r') + ' ms' : format(datum.value, '~r') + ' µs'"
)
COLUMNS = (("time", 86), ("rate", 92), ("of ceiling", 72), ("× best", 66))
Spec = dict[str, Any]


def colour(one: Measurement, best: str) -> str:
    """The CSS variable of an entry's colour."""
    if one.kind == "opponent":
        return "var(--rival)"
    return "var(--best)" if one.name == best else "var(--rung)"


def _value(value: float) -> Spec:
    return {"value": value}


def _text(
    field: str, x: Spec, y: Spec, align: str, fill: str | None = None, size: float = 12, bold: bool = False
) -> Spec:
    """A text mark; without ``fill``, its colour is a field of the data."""
    mark: Spec = {
        "type": "text", "align": align, "baseline": "middle", "fontSize": size, "aria": False, "clip": False, "limit": 0
    }  # fmt: skip
    if bold:
        mark["fontWeight"] = 600
    encoding: Spec = {"x": x, "y": y, "text": {"field": field, "type": "nominal"}}
    if fill:
        mark["color"] = fill
    return {"mark": mark, "encoding": encoding}


def _title(text: str, x: float, y: float, align: str = "right", fill: str = "var(--soft)") -> Spec:
    mark = {"type": "text", "align": align, "baseline": "middle", "color": fill, "fontSize": 11, "aria": False}
    return {
        "data": {"values": [{}]},
        "mark": mark,
        "encoding": {"x": _value(x), "y": _value(y), "text": {"value": text}},
    }


def ladder_rows(point: MeasuredPoint, order: Sequence[str]) -> list[Measurement]:
    """The rungs in ladder order, then the opponents, the fastest last."""
    rungs = sorted(point.rungs, key=lambda one: order.index(one.name))
    return [*rungs, *sorted(point.opponents, key=lambda one: -(one.median or math.inf))]


def ladder(point: MeasuredPoint, order: Sequence[str], narrow: bool = False) -> str:
    """Rates as bars, the ceiling and the best opponent as lines; figures in columns beside (or above) the bars.

    Rungs that do not support the arguments are in the caption only.
    """
    best = point.best.name if point.best else ""
    rival = point.rival
    roof, unit = fmt.ceiling(point), fmt.rate_unit(point)
    rows: list[dict[str, Any]] = []
    for one in ladder_rows(point, order):
        if one.verdict == "untested" and not one.median:
            continue
        rate = fmt.rate(one)
        interval = one.interval
        known = [part for part in (fmt.time(one), fmt.percent(one)) if part]
        rows.append(
            {
                "name": one.name,
                "rate": rate or 0.0,
                "fill": colour(one, best),
                "href": f"#{one.name}",
                "low": rate * one.median / interval.high if rate and one.median and interval else None,
                "high": rate * one.median / interval.low if rate and one.median and interval else None,
                "time": fmt.time(one),
                "rate_text": fmt.rate_words(one) if one.median else "",
                "percent": fmt.percent(one),
                "ratio": fmt.ratio(one) if one.kind == "rung" else "",
                "short": " · ".join(known),
                "ink": "var(--ink)" if one.kind == "rung" else "var(--soft)",
                "about": fmt.sentence(one, rival.name if rival else ""),
                "strong": one.name == best,
            }
        )
    top = max([roof or 0.0, *(row["rate"] for row in rows)], default=1.0) or 1.0
    left = round(LETTER * max((len(row["name"]) for row in rows), default=8)) + 14
    columns = [] if narrow else list(COLUMNS)
    bars = NARROW - 4 if narrow else WIDE - left - sum(width for _, width in columns) - 14
    step = NARROW_ROW if narrow else ROW
    x: Spec = {"field": "rate", "type": "quantitative", "scale": {"domain": [0, top * 1.005], "nice": False}}
    axis = {
        "title": None,
        "tickCount": 4 if narrow else 6,
        "format": ",~r",
        "domain": False,
        "ticks": False,
        "labelPadding": 4,
    }
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "axis": None}
    shift = 9.0 if narrow else 0.0
    bar = {"type": "bar", "height": 9 if narrow else 13, "yOffset": shift, "cursor": "pointer"}
    layers: list[Spec] = [{
        "mark": bar,
        "encoding": {"x": {**x, "axis": axis}, "y": y, "color": {"field": "fill", "type": "nominal", "scale": None},
                     "href": {"field": "href"}, "description": {"field": "about"}},
    }, {
        "transform": [{"filter": "isValid(datum.low)"}],
        "mark": {"type": "rule", "color": "var(--ink)", "yOffset": shift, "aria": False},
        "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y},
    }]  # fmt: skip
    layers += _lines(point, roof, unit, top, bars, narrow)
    layers += _names(y, left, narrow)
    layers += _narrow_columns(y, bars) if narrow else _columns(y, bars, columns, rival)
    layout: Spec = {"left": 0 if narrow else left, "right": 0, "top": 34 if narrow else 22, "bottom": 18}
    specification: Spec = {
        "data": {"values": rows}, "width": bars, "height": {"step": step}, "layer": layers, "padding": layout,
        "autosize": {"type": "none"},
    }  # fmt: skip
    specification = _fixed(
        specification, layout, bars, step * max(1, len(rows)), 0 if narrow else sum(w for _, w in columns) + 14
    )
    at = f"{point.case}, {point.size}, {point.dtype}"
    label = f"{unit} of each rung and opponent at {at}; the table below holds the figures"
    return svg(specification, label, "narrow" if narrow else "wide")


def _fixed(specification: Spec, margin: Mapping[str, float], width: float, height: float, right: float) -> Spec:
    """Set padding and size explicitly, so that they do not depend on font metrics."""
    padding = {"left": margin["left"], "right": right + 2, "top": margin["top"], "bottom": margin["bottom"]}
    return {**specification, "padding": padding, "height": height, "autosize": {"type": "none"}}


def _lines(point: MeasuredPoint, roof: float | None, unit: str, top: float, width: float, narrow: bool) -> list[Spec]:
    """The ceiling and the best opponent, each with its name above."""
    found: list[Spec] = []
    drawn: list[tuple[float, str, str, list[int]]] = []
    if roof:
        drawn.append(
            (roof, f"ceiling {roof:,.3g} {unit}" if roof < 1000 else f"ceiling {roof:,.0f} {unit}", "var(--ink)", [])
        )
    rate = fmt.rate(point.rival) if point.rival else None
    if rate and point.rival:
        drawn.append((rate, point.rival.name, "var(--rival-ink)", [3, 3]))
    for number, (value, text, fill, dash) in enumerate(drawn):
        mark: Spec = {"type": "rule", "color": fill, "strokeWidth": 1, "aria": False}
        if dash:
            mark["strokeDash"] = dash
        found.append(
            {
                "data": {"values": [{"rate": value}]},
                "mark": mark,
                "encoding": {"x": {"field": "rate", "type": "quantitative"}},
            }
        )
        at = value / (top * 1.005) * width
        near = len(drawn) == 2 and abs(drawn[0][0] - drawn[1][0]) / top * width < (LETTER * (len(drawn[0][1]) + 2))
        row = -20.0 if narrow and number == 0 and near else -8.0
        aside = not narrow and near and number == 1
        found.append(
            _title(
                text, at - (LETTER * (len(drawn[0][1]) + 1) if aside else 0), row, "right" if at > 90 else "left", fill
            )
        )
    return found


def _names(y: Spec, left: float, narrow: bool) -> list[Spec]:
    name = _text("name", _value(0 if narrow else -left + 2), y, "left")
    name["mark"] |= {"font": "var(--mono)", "dy": -7 if narrow else 0}
    name["encoding"] |= {
        "color": {"field": "ink", "type": "nominal", "scale": None},
        "href": {"field": "href"},
        "fontWeight": {"condition": {"test": "datum.strong", "value": 700}, "value": 400},
    }
    name["mark"].pop("fontWeight", None)
    del name["encoding"]["fontWeight"]
    return [name]


def _columns(y: Spec, width: float, columns: Sequence[tuple[str, int]], rival: Measurement | None) -> list[Spec]:
    """Figures in right-aligned columns, with headings."""
    found, at = [], float(width) + 14
    for (heading, wide), field in zip(columns, ("time", "rate_text", "percent", "ratio"), strict=True):
        at += wide
        text = heading if field != "ratio" or rival is None else "× best"
        found.append(_title(text, at, -8))
        cell = _text(field, _value(at), y, "right")
        cell["encoding"]["color"] = {"field": "ink", "type": "nominal", "scale": None}
        found.append(cell)
    return found


def _narrow_columns(y: Spec, width: float) -> list[Spec]:
    cell = _text("short", _value(width), y, "right")
    cell["mark"]["dy"] = -7
    cell["encoding"]["color"] = {"field": "ink", "type": "nominal", "scale": None}
    return [cell]


def in_drawing_order(point: MeasuredPoint) -> list[Measurement]:
    """The entries in drawing order: opponents first, the best rung last."""
    best = point.best.name if point.best else ""
    return sorted(point.entries, key=lambda one: (one.kind == "rung") + (one.name == best))


def shade(number: int, of: int) -> str:
    """The CSS variable for rung ``number`` of a ladder: later rungs are darker."""
    return f"var(--s{round(9 * number / max(1, of - 1))})"


def sizes(points: Sequence[MeasuredPoint], order: Sequence[str], what: str) -> str:
    """``what`` ("rate" or "time") of every rung and opponent over the sizes of one dtype, as lines labelled at the
    end.
    """
    points = sorted(points, key=lambda point: max((one.bytes or 0) + (one.flops or 0) for one in point.entries))
    units = {fmt.rate_unit(point) for point in points}
    unit = units.pop() if len(units) == 1 else "GB/s"  # if some sizes are memory-bound and others compute-bound
    best = points[-1].best.name if points[-1].best else ""
    rows: list[dict[str, Any]] = []
    names = [point.case for point in points]
    for position, point in enumerate(points):
        rival = point.rival.name if point.rival else ""
        for one in in_drawing_order(point):
            value = one.median if what == "time" else fmt.rate(one, unit)
            if value:
                rows.append(
                    {
                        "at": position,
                        "case": point.case,
                        "value": value * (1e6 if what == "time" else 1),
                        "name": one.name,
                        "href": f"#{one.name}",
                        "about": f"{point.case}, {point.size}: {fmt.sentence(one, rival)}",
                        "opponent": one.kind == "opponent",
                        "fill": "var(--rival)"
                        if one.kind == "opponent"
                        else "var(--best)"
                        if one.name == best
                        else shade(order.index(one.name), len(order)),
                    }
                )
    width, height = SMALL
    values = [row["value"] for row in rows]
    log = what == "time"
    roofs = [(position, fmt.ceiling(point, unit)) for position, point in enumerate(points)]
    top = max([*values, *(roof for _, roof in roofs if roof and not log)])
    domain = [10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(top))] if log else [0, top * 1.04]
    ends = _ends(rows, domain, height, log)
    last = len(points) - 1
    x: Spec = {
        "field": "at",
        "type": "quantitative",
        "scale": {"domain": [0, max(1, last)], "nice": False, "zero": False},
    }
    crowded = LETTER * sum(len(name) + 2 for name in names) > 0.8 * width
    heads = [
        f"['', '{_quoted(name)}']" if crowded and number % 2 else f"'{_quoted(name)}'"
        for number, name in enumerate(names)
    ]
    short = " : ".join(f"datum.value == {position} ? {name}" for position, name in enumerate(heads))
    x_axis = {"title": None, "values": list(range(len(points))), "labelExpr": f"{short} : ''", "ticks": True,
              "labelAngle": 0, "labelFlush": True, "labelOverlap": False, "labelFontSize": 10.5}  # fmt: skip
    heading = "time" if log else unit
    y: Spec = {
        "field": "value", "type": "quantitative",
        "scale": {"domain": domain, "nice": False, **({"type": "log"} if log else {})},
        "axis": {"title": None, "grid": True, "domain": False, "ticks": False, "format": "~s" if log else ",~r",
                 "tickCount": 4, **({"values": _powers(domain), "labelExpr": DURATIONS} if log else {})},
    }  # fmt: skip
    paint = {"field": "fill", "type": "nominal", "scale": None}
    layers: list[Spec] = [
        {"mark": {"type": "line", "strokeWidth": 1.4, "aria": False},
         "encoding": {"x": {**x, "axis": x_axis}, "y": y, "color": paint, "detail": {"field": "name"},
                      "strokeDash": {"condition": {"test": "datum.opponent", "value": [3, 3]}, "value": [1, 0]}}},
        {"mark": {"type": "point", "filled": True, "size": 34, "opacity": 1},
         "encoding": {"x": x, "y": y, "color": paint, "href": {"field": "href"}, "description": {"field": "about"}}},
        {"data": {"values": ends},
         "mark": {"type": "text", "align": "left", "dx": 7, "baseline": "middle", "fontSize": 10.5, "aria": False},
         "encoding": {"x": {**x, "field": "at"}, "y": {**y, "field": "label_at"}, "text": {"field": "short"},
                      "color": {"field": "ink", "type": "nominal", "scale": None}}},
        _title(heading, -42, -12, "left"),
    ]  # fmt: skip
    if not log and any(roof for _, roof in roofs):
        line = [{"at": position, "value": roof} for position, roof in roofs if roof]
        mark = {"type": "line", "color": "var(--ink)", "strokeWidth": 1, "aria": False}
        layers.insert(0, {"data": {"values": line}, "mark": mark, "encoding": {"x": x, "y": y}})
        layers.append(
            _title("ceiling", 2, height * (1 - (line[0]["value"] or 0) / domain[1]) - 7, "left", "var(--ink)")
        )
    specification: Spec = {"data": {"values": rows}, "width": width, "layer": layers}
    margin = {"left": 42, "top": 20, "bottom": 34}
    label = (
        f"{heading} of every rung and opponent over the sizes, {points[0].dtype}; the ladder's tables hold the figures"
    )
    return svg(_fixed(specification, margin, width, height, 76), label, "small")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _powers(domain: Sequence[float]) -> list[float]:
    return [10.0**exponent for exponent in range(round(math.log10(domain[0])), round(math.log10(domain[1])) + 1)]


def _ends(rows: Sequence[Mapping[str, Any]], domain: Sequence[float], height: float, log: bool) -> list[Spec]:
    """The labels at the ends of the lines, moved apart vertically to avoid overlap."""

    def pixel(value: float) -> float:
        low, high = (math.log10(each) for each in domain) if log else domain
        return height * (1 - ((math.log10(value) if log else value) - low) / (high - low))

    def value(pixels: float) -> float:
        low, high = (math.log10(each) for each in domain) if log else domain
        found = low + (1 - pixels / height) * (high - low)
        return float(10**found) if log else found

    last = max((row["at"] for row in rows), default=0)
    ends = sorted((row for row in rows if row["at"] == last), key=lambda row: pixel(row["value"]))
    spots = spread([pixel(row["value"]) for row in ends], 11.0, 0.0, height)
    return [
        {
            "at": row["at"],
            "label_at": value(spot),
            "short": row["name"] if row["opponent"] else short(row["name"]),
            "ink": "var(--best)" if row["fill"] == "var(--best)" else "var(--soft)",
        }
        for row, spot in zip(ends, spots, strict=True)
    ]


def short(name: str) -> str:
    """A rung's number, ``k05``; other names unchanged."""
    head = name.partition("_")[0]
    return head if head[:1] == "k" and head[1:].isdigit() else name


def spread(spots: Sequence[float], least: float, low: float, high: float) -> list[float]:
    """``spots``, ascending, moved to be at least ``least`` apart between ``low`` and ``high``."""
    found: list[float] = []
    for spot in spots:
        found.append(max(spot, found[-1] + least) if found else max(spot, low))
    limit = high
    for number in range(len(found) - 1, -1, -1):
        found[number] = min(found[number], limit)
        limit = found[number] - least
    return found


def predictions(rows: Sequence[tuple[str, float, str]], narrow: bool = False) -> str:
    """Predicted seconds of each rung as outlined bars, distinct from the filled bars of measured times."""
    longest = max(seconds for _, seconds, _ in rows)
    left = 0 if narrow else round(LETTER * max(len(name) for name, _, _ in rows)) + 14
    width = NARROW - 4 if narrow else WIDE - left - 120
    step = NARROW_ROW if narrow else ROW
    data = [
        {"name": name, "seconds": seconds, "short": duration(seconds) if narrow else f"{duration(seconds)} predicted",
         "about": f"{name}: {duration(seconds)} predicted, limited by {limiter}", "href": f"#{name}",
         "ink": "var(--ink)", "strong": False}
        for name, seconds, limiter in rows
    ]  # fmt: skip
    x: Spec = {
        "field": "seconds",
        "type": "quantitative",
        "scale": {"domain": [0, longest], "nice": False},
        "axis": None,
    }
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "axis": None}
    bar = {"type": "bar", "height": 9 if narrow else 13, "yOffset": 9 if narrow else 0, "fill": "none",
           "stroke": "var(--rung)", "strokeDash": [4, 3], "strokeWidth": 1.2, "cursor": "pointer"}  # fmt: skip
    layers = [
        {"mark": bar, "encoding": {"x": x, "y": y, "href": {"field": "href"}, "description": {"field": "about"}}},
        *_names(y, left, narrow),
        *(_narrow_columns(y, width) if narrow else [_text("short", _value(width + 116), y, "right", "var(--ink)")]),
    ]
    specification: Spec = {"data": {"values": data}, "layer": layers, "width": width}
    margin = {"left": left, "top": 8, "bottom": 4}
    fixed = _fixed(specification, margin, width, step * len(rows), 0 if narrow else 116)
    return svg(fixed, "Predicted time of each rung, not measured", "narrow" if narrow else "wide")
