"""``Timing``: the time of one function, with its environment and its ceiling."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from warpwise.lab.display import render
from warpwise.lab.timing.samples import Clock
from warpwise.lab.timing.stats import Interval
from warpwise.lab.timing.stats import ratio as paired
from warpwise.operation import Cost


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median and its 95 % interval over ``samples`` rounds, measured on ``place`` by ``method``.

    ``floor`` is the least time in seconds at the device's measured ceilings, and ``bound`` the limiting one. ``void``
    is the reason why the time must not be used, or ""; the numbers are then NaN. ``converged`` is False if the budget
    ended before the interval was narrow enough, ``throttled`` if the SM clock was low throughout, and
    ``exposed`` if launch overhead is in the time. ``dropped`` counts dropped samples by reason. ``spent`` is the time
    of all samples in seconds.
    """

    name: str
    median: float
    low: float
    high: float
    samples: int
    spent: float
    place: str
    method: str
    cost: Cost | None = None
    floor: float = 0.0
    bound: str = ""
    clock: Clock | None = None
    converged: bool = True
    throttled: bool = False
    exposed: bool = False
    dropped: dict[str, int] = field(default_factory=dict)
    void: str = ""
    rounds: tuple[float, ...] = field(default=(), repr=False)

    @property
    def gbps(self) -> float | None:
        """The bytes that the operation must move, in GB/s (1e9), or None without a cost."""
        return self.cost.bytes / self.median / 1e9 if self.cost and self.median > 0 else None

    @property
    def tflops(self) -> float | None:
        """The FLOPs of the operation, in TFLOP/s, or None if it has none."""
        return self.cost.flops / self.median / 1e12 if self.cost and self.cost.flops and self.median > 0 else None

    @property
    def percent(self) -> float | None:
        """The floor in percent of the time, or None without a ceiling; above 100 if inputs are in a cache."""
        return 100 * self.floor / self.median if self.floor and self.median > 0 else None

    def _repr_html_(self) -> str:
        made: str = render(self, "html")
        return made

    def __str__(self) -> str:
        if self.void:
            return f"{self.name}: void: {self.void}"
        rate = (
            f", {self.tflops:.3g} TFLOP/s"
            if self.bound == "compute" and self.tflops
            else f", {self.gbps:.4g} GB/s"
            if self.gbps
            else ""
        )
        percent = f", {self.percent:.1f} % of the ceiling" if self.percent else ""
        spread = f"{duration(self.median)} ({duration(self.low)} to {duration(self.high)}, {self.samples} samples)"
        return f"{self.name}: {spread}{rate}{percent} on {self.place}"

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can represent; times in seconds, without the rounds."""
        return {
            "median_s": _finite(self.median),
            "low_s": _finite(self.low),
            "high_s": _finite(self.high),
            "samples": self.samples,
            "spent_s": round(self.spent, 3),
            "place": self.place,
            "method": self.method,
            "bytes": self.cost.bytes if self.cost else None,
            "flops": self.cost.flops if self.cost else None,
            "gbps": self.gbps,
            "tflops": self.tflops,
            "floor_s": self.floor or None,
            "bound": self.bound,
            "percent": self.percent,
            "clock_mhz": [self.clock.low, self.clock.median, self.clock.highest] if self.clock else None,
            "converged": self.converged,
            "throttled": self.throttled,
            "exposed": self.exposed,
            "dropped": self.dropped,
            "void": self.void,
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def duration(seconds: float) -> str:
    """Seconds with the unit that fits: ``1.23 s``, ``4.56 ms`` or ``7.89 µs``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds / 1e-6:.4g} µs"


def rate_text(bound: str, tflops: float | None, gbps: float | None) -> str:
    """The rate for the ceiling ``bound``: TFLOP/s for "compute", else GB/s."""
    if bound == "compute" and tflops:
        return f"{tflops:.1f} TFLOP/s"
    return f"{gbps:,.0f} GB/s" if gbps else ""


def ratio(above: Timing, below: Timing) -> Interval:
    """The time of ``above`` over that of ``below``, with a 95 % interval, from the rounds that have both.

    Both must come from one call of ``time``, which interleaves them. Raises ``ValueError`` if either is void.
    """
    for timing in (above, below):
        if timing.void:
            raise ValueError(f"ratio: {timing.name} has no time: {timing.void}")
    return paired(above.rounds, below.rounds)
