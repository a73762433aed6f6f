"""What a timer reads, and what is worth keeping of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

SLOW_CLOCK = 0.75  # of the highest SM clock: samples below were taken while the device was throttled or waking up


@dataclass(frozen=True)
class Reading:
    """One sample: seconds a call, the SM clock beside it in MHz (None if unknown), and whether launch overhead is in it."""

    seconds: float
    mhz: float | None = None
    exposed: bool = False


class Timer(Protocol):
    """Takes one sample after another. ``place`` and ``method`` go into every number.

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
        """Run ``call`` once, or a few times over, and time it."""

    def finish(self) -> None:
        """Wait until everything that was started has ended."""


@dataclass(frozen=True)
class Clock:
    """The SM clock in MHz beside the samples that were kept, and the highest that the device reaches."""

    low: float
    median: float
    highest: float


@dataclass(frozen=True)
class Kept:
    """The samples that count, a round each with NaN where there is none, and how many of which kind were dropped."""

    rounds: tuple[float, ...]
    dropped: dict[str, int]
    throttled: bool
    exposed: bool

    @property
    def values(self) -> list[float]:
        return [seconds for seconds in self.rounds if not math.isnan(seconds)]


def keep(readings: Sequence[Reading], max_mhz: float | None) -> Kept:
    """Drop samples under three quarters of the highest clock, and those with launch overhead where others have none.

    Where that would drop more than half of the samples, the state is no accident but what the device does under this
    load (a power limit), or what the function does (it waits for the device): all are kept, and it is said.
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
    return Kept(tuple(rounds), counts, throttled, always_exposed)
