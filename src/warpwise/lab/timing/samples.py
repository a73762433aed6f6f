"""A timer's samples, and which of them are kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

SLOW_CLOCK = 0.75  # fraction of the highest SM clock; below it the device was throttled or idle


@dataclass(frozen=True)
class Reading:
    """One sample: seconds per call, the SM clock in MHz (None if unknown), and whether it includes launch overhead."""

    seconds: float
    mhz: float | None = None
    exposed: bool = False


class Timer(Protocol):
    """A timer. ``place`` and ``method`` are recorded with every timing.


    ``clock`` is the host clock, in seconds, that budgets are measured with.
    """

    clock: Callable[[], float]
    place: str
    method: str
    max_mhz: float | None
    cache_bytes: int

    def prepare(self, call: Callable[[], Any]) -> None:
        """Warm up whatever ``call`` needs before its first sample."""

    def sample(self, call: Callable[[], Any]) -> Reading:
        """Run and time ``call`` once or a few times."""

    def finish(self) -> None:
        """Synchronise."""


@dataclass(frozen=True)
class Clock:
    """The SM clock in MHz during the kept samples, and the highest clock of the device."""

    low: float
    median: float
    highest: float


@dataclass(frozen=True)
class KeptSamples:
    """The kept samples by round, NaN for dropped ones, and the number of dropped samples by reason."""

    rounds: tuple[float, ...]
    dropped: dict[str, int]
    throttled: bool
    exposed: bool

    @property
    def values(self) -> list[float]:
        return [seconds for seconds in self.rounds if not math.isnan(seconds)]


def keep(readings: Sequence[Reading], max_mhz: float | None) -> KeptSamples:
    """Drop samples below three quarters of the highest clock, and samples with launch overhead if others have none.

    If that would drop more than half of the samples, the cause is systematic, such as a power limit or a function that
    synchronises: all samples are kept and the result is flagged.
    """
    highest = max_mhz or max((reading.mhz for reading in readings if reading.mhz), default=0.0)
    slow = [reading.mhz is not None and reading.mhz < SLOW_CLOCK * highest for reading in readings]
    exposed = [reading.exposed for reading in readings]
    taken = sum(not math.isnan(reading.seconds) for reading in readings)
    throttled, always_exposed = 2 * sum(slow) > taken, 2 * sum(exposed) > taken
    rounds, dropped = [], {"slow clock": 0, "launch overhead": 0}
    for reading, was_slow, was_exposed in zip(readings, slow, exposed, strict=True):
        reason = (
            "slow clock"
            if was_slow and not throttled
            else "launch overhead"
            if was_exposed and not always_exposed
            else ""
        )
        if reason:
            dropped[reason] += 1
        rounds.append(math.nan if reason or math.isnan(reading.seconds) else reading.seconds)
    counts = {reason: count for reason, count in dropped.items() if count}
    return KeptSamples(tuple(rounds), counts, throttled, always_exposed)
