"""The store's records: a ``Run`` of one operation's ladder and its ``Measurement``s."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal

from warpwise.lab.timing.samples import Clock
from warpwise.lab.timing.stats import Interval
from warpwise.lab.verify.verdict import Status

Kind = Literal["rung", "opponent", "gradient"]
GRADIENT = "gradient"  # the name of the measurement of kind "gradient": the verdict on the gradient


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Run:
    """One run of an operation's ladder on ``device`` at ``started`` (UTC). The store assigns the ``id``, "r12".

    ``commit`` is the git commit of the repository that holds the kernels, "" outside one, and ``dirty`` whether tracked
    files differed from it. ``environment`` has the other properties of the machine (``lab.timing.environment``).
    ``finished`` is None for a run that was killed or is in progress. ``made_by`` is the command, or the file of origin.
    """

    op: str
    device: str
    started: datetime
    driver: str = ""
    warpwise: str = ""
    torch: str = ""
    triton: str = ""
    cuda: str = ""
    commit: str = ""
    dirty: bool = False
    made_by: str = ""
    environment: Mapping[str, Any] = field(default_factory=_nothing)
    finished: datetime | None = None
    id: str = ""

    @property
    def kernels(self) -> str:
        """The abbreviated commit, with ``+`` if files differed from it."""
        return f"{self.commit[:9]}{'+' if self.dirty else ''}"

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can represent; times in ISO 8601."""
        return {
            "id": self.id,
            "op": self.op,
            "device": self.device,
            "started": self.started.isoformat(),
            "finished": self.finished.isoformat() if self.finished else None,
            "driver": self.driver,
            "versions": {"warpwise": self.warpwise, "torch": self.torch, "triton": self.triton, "cuda": self.cuda},
            "commit": self.commit,
            "dirty": self.dirty,
            "made_by": self.made_by,
            "environment": dict(self.environment),
        }


@dataclass(frozen=True)
class Measurement:
    """The result of one rung or opponent (``name``) at one case and dtype; without a case, its verdict over all cases.

    The verdict on the gradient of the operation is a measurement of kind "gradient", without a case.

    ``median``, ``low`` and ``high`` are seconds per call, the median and its 95 % interval over ``samples`` samples by
    the method ``mode``, or None without a valid time. ``bytes`` and ``flops`` are the operation's cost, ``floor`` the
    least time in seconds at the measured ceilings. ``ratio`` is the speed relative to the best opponent of that point.
    ``message`` is the reason for a verdict other than "right" or for a missing time. ``source`` is a digest of the
    kernel's file and its includes. ``counters`` are those of an explanation, by Nsight Compute's names.
    """

    name: str
    verdict: Status
    taken: datetime
    kind: Kind = "rung"
    language: str = ""
    case: str = ""
    sizes: Mapping[str, int] = field(default_factory=_nothing)
    values: str = ""
    layout: str = ""
    dtype: str = ""
    message: str = ""
    median: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    mode: str = ""
    bytes: int | None = None
    flops: int | None = None
    floor: float | None = None
    bound: str = ""
    ratio: Interval | None = None
    clock: Clock | None = None
    converged: bool = True
    throttled: bool = False
    exposed: bool = False
    source: str = ""
    counters: Mapping[str, float] = field(default_factory=_nothing, repr=False)
    op: str = ""
    device: str = ""
    run: str = ""
    id: int = 0

    @property
    def timed(self) -> bool:
        """True if there is a valid time."""
        return self.median is not None

    @property
    def interval(self) -> Interval | None:
        """The time and its 95 % interval in seconds, or None."""
        if not self.median or not self.low or not self.high:
            return None
        return Interval(self.median, self.low, self.high)

    @property
    def gbps(self) -> float | None:
        """The bytes that the operation must move, in GB/s (1e9)."""
        return self.bytes / self.median / 1e9 if self.bytes and self.median else None

    @property
    def tflops(self) -> float | None:
        """The FLOPs of the operation, in TFLOP/s."""
        return self.flops / self.median / 1e12 if self.flops and self.median else None

    @property
    def percent(self) -> float | None:
        """The floor as a percentage of the time."""
        return 100 * self.floor / self.median if self.floor and self.median else None

    @property
    def where(self) -> str:
        """Case, sizes and dtype as text: ``large(rows=16384, columns=4096), float32``."""
        sizes = ", ".join(f"{key}={value}" for key, value in self.sizes.items())
        named = self.case if "=" in self.case or not sizes else f"{self.case}({sizes})"
        return ", ".join(text for text in (named, self.dtype) if text)

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can represent; durations in seconds, times in ISO 8601."""
        ratio = self.ratio and {"median": self.ratio.median, "low": self.ratio.low, "high": self.ratio.high}
        return {
            "id": self.id,
            "run": self.run,
            "op": self.op,
            "device": self.device,
            "taken": self.taken.isoformat(),
            "name": self.name,
            "kind": self.kind,
            "language": self.language,
            "verdict": self.verdict,
            "message": self.message,
            "case": self.case,
            "sizes": dict(self.sizes),
            "values": self.values,
            "layout": self.layout,
            "dtype": self.dtype,
            "median_s": self.median,
            "low_s": self.low,
            "high_s": self.high,
            "samples": self.samples,
            "mode": self.mode,
            "bytes": self.bytes,
            "flops": self.flops,
            "gbps": self.gbps,
            "tflops": self.tflops,
            "floor_s": self.floor,
            "bound": self.bound,
            "percent": self.percent,
            "ratio": ratio,
            "clock_mhz": [self.clock.low, self.clock.median, self.clock.highest] if self.clock else None,
            "converged": self.converged,
            "throttled": self.throttled,
            "exposed": self.exposed,
            "source": self.source,
            "counters": dict(self.counters),
        }


@dataclass(frozen=True)
class HistoryEntry:
    """A measurement with its run; ``before`` and ``before_run`` are the previous time of the same entry and its run, if
    any.

    The same entry is the same rung of the same operation, at the same case, sizes and dtype, timed by the same method
    on the same device.
    """

    run: Run
    measurement: Measurement
    before: Interval | None = None
    before_run: str = ""


def finite(value: Any) -> float | None:
    """``value`` as a finite float, else None (a void time is NaN)."""
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
