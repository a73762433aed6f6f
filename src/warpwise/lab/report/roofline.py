"""The roofline: work per second over work per byte of DRAM traffic.

S. Williams, A. Waterman, D. Patterson: Roofline: an insightful visual performance model for multicore architectures,
2009. For operations without arithmetic, the work is the bytes that must move, so the intensity is at most about 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warpwise.lab.report import format as fmt
from warpwise.lab.report.charts import Spec, _fixed, _title, colour, in_drawing_order, short, spread
from warpwise.lab.report.collected import MeasuredPoint, NcuCounters, Roofs
from warpwise.lab.report.draw import svg
from warpwise.lab.store import Measurement

WIDTH, HEIGHT = 296, 224


@dataclass(frozen=True)
class Dot:
    """One entry: ``intensity`` in work per byte, ``rate`` in work per second; ``counted`` if the bytes are ncu's."""

    entry: Measurement
    intensity: float
    rate: float
    counted: bool


def dots(point: MeasuredPoint, counters: NcuCounters | None) -> list[Dot]:
    """Every timed entry, with the DRAM bytes that ncu counted, else the least possible number."""
    found = []
    for one in in_drawing_order(point):
        work = one.flops or one.bytes
        if not one.median or not work or not one.bytes:
            continue
        moved = counters.moved(one.name, point.case, point.dtype) if counters and one.kind == "rung" else None
        found.append(Dot(one, work / (moved or one.bytes), work / one.median, moved is not None))
    return found


def roofline(point: MeasuredPoint, roofs: Roofs, counters: NcuCounters | None) -> str:
    """The chart, log-log; "" if it would be empty."""
    found = dots(point, counters)
    if not found or not roofs.bandwidth:
        return ""
    arithmetic = any(dot.entry.flops for dot in found)
    peak = roofs.flops.get(point.dtype, 0.0) if arithmetic else 0.0
    ridge = peak / roofs.bandwidth if peak else 0.0
    inside = [dot.intensity for dot in found]
    low, high = min([*inside, *([ridge / 3] if ridge else [])]) / 2, max([*inside, ridge]) * (4 if ridge else 2.5)
    top = max([peak or roofs.bandwidth * high, *(dot.rate for dot in found)]) * 1.8
    bottom = min(dot.rate for dot in found) / 2.5
    unit, scale = ("TFLOP/s", 1e12) if arithmetic else ("GB/s of useful bytes", 1e9)
    x: Spec = {
        "field": "intensity", "type": "quantitative", "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"title": f"{'FLOP' if arithmetic else 'useful bytes'} per byte of DRAM traffic", "tickCount": 4,
                 "values": _ticks(low, high), "format": "~r", "titleAnchor": "end"},
    }  # fmt: skip
    y: Spec = {
        "field": "rate", "type": "quantitative",
        "scale": {"type": "log", "domain": [bottom / scale, top / scale], "nice": False},
        "axis": {"title": None, "values": _ticks(bottom / scale, top / scale), "format": "~r", "grid": True,
                 "domain": False, "ticks": False},
    }  # fmt: skip
    plain = {name: {key: value for key, value in axis.items() if key != "axis"} for name, axis in (("x", x), ("y", y))}
    roof = _roof(roofs.bandwidth, peak, max(low, bottom / roofs.bandwidth), high, top)
    layers: list[Spec] = [{
        "data": {"values": [{"intensity": at, "rate": rate / scale} for at, rate in roof]},
        "mark": {"type": "line", "color": "var(--ink)", "strokeWidth": 1.2, "aria": False},
        "encoding": {"x": x, "y": y},
    }, {
        "data": {"values": _rows(found, point, scale)},
        "mark": {"type": "point", "size": 62, "strokeWidth": 1.6, "opacity": 1, "clip": False},
        "encoding": {
            **plain, "shape": {"field": "shape", "type": "nominal", "scale": None}, "href": {"field": "href"},
            "fill": {"field": "fill", "type": "nominal", "scale": None},
            "stroke": {"field": "stroke", "type": "nominal", "scale": None},
            "description": {"field": "about"},
        },
    }, _title(unit, -42, -12, "left")]  # fmt: skip
    layers += _labels(found, plain, scale, (bottom, top))
    copies = f"copies {roofs.bandwidth / 1e12:.2f} TB/s"
    layers.append(_along(copies, roofs.bandwidth, (low, high), (bottom, top), peak))
    if peak:
        drop = HEIGHT * math.log(top / peak) / math.log(top / bottom)
        layers.append(
            _title(f"torch.mm {peak / 1e12:,.3g} TFLOP/s {point.dtype}", WIDTH, drop - 8, "right", "var(--soft)")
        )
    margin = {"left": 42, "top": 20, "bottom": 36}
    specification = _fixed({"layer": layers, "width": WIDTH}, margin, WIDTH, HEIGHT, 22)
    label = f"Roofline at {point.case}, {point.size}, {point.dtype}: {unit} over {x['axis']['title']}"
    return svg(specification, label, "small")


def _roof(bandwidth: float, peak: float, low: float, high: float, top: float) -> list[tuple[float, float]]:
    """The corners of the roof, inside the chart."""
    if not peak:
        end = min(high, top / bandwidth)
        return [(low, bandwidth * low), (end, bandwidth * end)]
    ridge = peak / bandwidth
    return [(low, bandwidth * low), (ridge, peak), (high, peak)] if low < ridge else [(low, peak), (high, peak)]


def _rows(found: Sequence[Dot], point: MeasuredPoint, scale: float) -> list[dict[str, Any]]:
    best, rival = point.best.name if point.best else "", point.rival.name if point.rival else ""
    rows = []
    for dot in found:
        paint = colour(dot.entry, best)
        how = "counted by ncu" if dot.counted else "if each byte is moved once"
        work = "FLOP" if dot.entry.flops else "useful bytes"
        rows.append(
            {
                "intensity": dot.intensity,
                "rate": dot.rate / scale,
                "fill": paint if dot.counted else "var(--paper)",
                "stroke": paint,
                "shape": "square"
                if dot.entry.kind == "opponent"
                else "triangle-up"
                if dot.entry.language == "triton"
                else "circle",
                "href": f"#{dot.entry.name}",
                "about": f"{fmt.sentence(dot.entry, rival)}; "
                f"{dot.intensity:.3g} {work} per byte of DRAM traffic, {how}",
            }
        )
    return rows


def _labels(found: Sequence[Dot], axes: Spec, scale: float, ys: tuple[float, float]) -> list[Spec]:
    """The number of each rung beside its mark, alternately right and left, moved apart vertically."""
    rungs = sorted((dot for dot in found if dot.entry.kind == "rung"), key=lambda dot: -dot.rate)
    span = math.log(ys[1] / ys[0])
    made: list[Spec] = []
    for align, side in (("left", rungs[::2]), ("right", rungs[1::2])):
        spots = spread([HEIGHT * math.log(ys[1] / dot.rate) / span for dot in side], 11.0, 0.0, HEIGHT)
        values = [
            {
                "intensity": dot.intensity,
                "rate": ys[1] * math.exp(-spot / HEIGHT * span) / scale,
                "short": short(dot.entry.name),
            }
            for dot, spot in zip(side, spots, strict=True)
        ]
        mark = {
            "type": "text", "align": align, "dx": 8 if align == "left" else -8, "fontSize": 10.5, "baseline": "middle",
            "aria": False,
            "color": "var(--soft)",
        }  # fmt: skip
        made.append({"data": {"values": values}, "mark": mark, "encoding": {**axes, "text": {"field": "short"}}})
    return made


def _along(text: str, bandwidth: float, xs: tuple[float, float], ys: tuple[float, float], peak: float) -> Spec:
    """A label along the sloping part of the roof."""
    across, up = WIDTH / math.log(xs[1] / xs[0]), HEIGHT / math.log(ys[1] / ys[0])
    angle = -math.degrees(math.atan2(up, across))
    end = min(xs[1], (peak or ys[1]) / bandwidth)
    start = max(xs[0], ys[0] / bandwidth)
    middle = math.exp(math.log(start) + 0.5 * (math.log(end) - math.log(start))) if end > start else start
    at = across * math.log(middle / xs[0])
    down = HEIGHT - up * math.log(bandwidth * middle / ys[0])
    label = _title(text, at, down, "center", "var(--soft)")
    label["mark"] |= {"angle": angle % 360, "dy": -8}
    return label


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten inside, with halves and fifths where there are few of them."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    powers = [10.0**exponent for exponent in range(first, last + 1)]
    inside = [value for value in powers if low <= value <= high]
    if len(inside) >= 3:
        return inside
    return [value * factor for value in powers for factor in (1, 2, 5) if low <= value * factor <= high]
