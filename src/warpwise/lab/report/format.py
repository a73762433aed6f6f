"""Format the figures of a measurement, the same in every chart, table and line of a page."""

from __future__ import annotations

from dataclasses import dataclass

from warpwise.lab.report.collected import MeasuredPoint
from warpwise.lab.store import Measurement
from warpwise.lab.timing.timing import duration, rate_text

MIN_SPEEDUP = 1.05  # over the best rung before: the least that counts as a speed-up
MARKS = {"right": "✓ right", "wrong": "✗ wrong", "untested": "– untested", "": "not verified"}


@dataclass(frozen=True)
class Gain:
    """A rung's speed-up: ``factor`` over ``before``, the best rung before it on the ladder; None for the first."""

    entry: Measurement
    factor: float | None
    before: str = ""

    @property
    def is_faster(self) -> bool:
        """True if the rung is at least ``MIN_SPEEDUP`` times as fast."""
        return self.factor is not None and self.factor >= MIN_SPEEDUP


def steps(point: MeasuredPoint, order: tuple[str, ...]) -> list[Gain]:
    """The speed-up of each correct, timed rung over the best one before it, without rungs that run by name only."""
    found: list[Gain] = []
    best: Measurement | None = None
    for name in order:
        entry = point.entry(name)
        if entry is None or not entry.median or entry.verdict != "right" or name in point.by_name:
            continue
        found.append(
            Gain(entry, best.median / entry.median if best and best.median else None, best.name if best else "")
        )
        if best is None or entry.median < (best.median or 0.0):
            best = entry
    return found


def rate(one: Measurement, unit: str = "") -> float | None:
    """GB/s, or TFLOP/s if compute-bound, or calls/s without a cost; ``unit`` selects one of them."""
    if not one.median:
        return None
    rates = {"TFLOP/s": one.tflops, "GB/s": one.gbps, "calls/s": 1 / one.median}
    return (
        rates[unit] if unit else (one.tflops if one.bound == "compute" and one.tflops else one.gbps) or 1 / one.median
    )


def rate_unit(point: MeasuredPoint) -> str:
    """The unit of ``rate`` at this point."""
    timed = next((one for one in point.entries if one.median), None)
    if timed is None or not (timed.gbps or timed.tflops):
        return "calls/s"
    return "TFLOP/s" if timed.bound == "compute" and timed.tflops else "GB/s"


def ceiling(point: MeasuredPoint, unit: str = "") -> float | None:
    """The measured ceiling in the unit of ``rate``: the work over its floor."""
    unit = unit or rate_unit(point)
    for one in point.entries:
        if one.floor and unit != "calls/s":
            work, scale = (one.flops, 1e12) if unit == "TFLOP/s" else (one.bytes, 1e9)
            return (work or 0) / one.floor / scale
    return None


def ceiling_name(point: MeasuredPoint, device: str) -> str:
    """``what an NVIDIA H200 copies`` or ``what torch.mm reaches on an NVIDIA H200``."""
    if rate_unit(point) == "TFLOP/s":
        return f"what torch.mm reaches on the {device} in {point.dtype}"
    return f"what the {device} copies"


def time(one: Measurement) -> str:
    """``133.7 µs``."""
    return duration(one.median) if one.median else "not timed"


def rate_words(one: Measurement) -> str:
    """``4,015 GB/s``, or "" without a cost."""
    return rate_text(one.bound, one.tflops, one.gbps)


def percent(one: Measurement) -> str:
    """``94 %`` of the ceiling, or "" without one; with one more digit below 1 %."""
    if one.percent is None:
        return ""
    return f"{one.percent:.1f} %" if one.percent < 0.95 else f"{one.percent:.0f} %"


def ratio(one: Measurement) -> str:
    """``2.32 ×``: the speed relative to the best opponent."""
    if one.ratio is None:
        return ""
    return f"{one.ratio.median:.2f} ×" if one.ratio.median >= 0.1 else f"{one.ratio.median:.2g} ×"


def against(point: MeasuredPoint) -> str:
    """``ratio`` of the best rung, or the ratio of the medians if none was recorded; "" without an opponent."""
    best, rival = point.best, point.rival
    if best is None or rival is None or not best.median or not rival.median:
        return ""
    return ratio(best) or f"{rival.median / best.median:.2f} ×"


def gain(factor: float) -> str:
    """``×13``, ``×1.84``; a loss is ``×0.81``."""
    return f"×{factor:.0f}" if factor >= 9.95 else f"×{factor:.2f}"


def marks(one: Measurement) -> str:
    """Remarks on the timing."""
    return "; ".join(text for holds, text in flags(one.converged, one.throttled, one.exposed) if holds)


def flags(converged: bool, throttled: bool, exposed: bool) -> list[tuple[bool, str]]:
    """The possible remarks, each with True if it applies."""
    return [
        (not converged, "the budget ended before the interval was narrow enough"),
        (throttled, "the SM clock was low"),
        (exposed, "launch overhead is in it"),
    ]


def sentence(one: Measurement, rival: str = "") -> str:
    """All figures of an entry, as the tooltip and screen-reader label of a chart's mark."""
    if not one.median:
        return f"{one.name}: not timed: {one.message}" if one.message else f"{one.name}: not timed"
    interval = one.interval
    spread = (
        f" (95 % interval {duration(interval.low)} to {duration(interval.high)}, {one.samples} samples)"
        if interval
        else ""
    )
    parts = [
        f"{duration(one.median)}{spread}",
        rate_words(one),
        f"{percent(one)} of the ceiling" if percent(one) else "",
    ]
    if one.ratio and rival and one.name != rival:
        parts.append(f"{ratio(one)} {rival}")
    parts += [one.message, marks(one)]
    return f"{one.name}: {', '.join(part for part in parts if part)}"
