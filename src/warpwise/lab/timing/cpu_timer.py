"""Samples on a CPU: ``perf_counter`` around enough calls for the clock's resolution."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from warpwise.lab.timing.environment import place
from warpwise.lab.timing.samples import Reading

SHORTEST = 50e-6  # least seconds of a sample, a thousand times the clock's resolution
MOST_CALLS = 1 << 16


class CpuTimer:
    """Time calls with the host's clock and warm caches. ``clock`` can be replaced, for tests."""

    max_mhz: float | None = None
    cache_bytes = 0

    def __init__(self, clock: Callable[[], float] = time.perf_counter, name: str | None = None) -> None:
        self.clock = clock
        self._calls: dict[int, int] = {}
        self.place = name or place(torch.device("cpu"))
        self.method = "perf_counter, caches warm"

    def prepare(self, call: Callable[[], Any]) -> None:
        """Call it once, then double the calls per sample until a sample is long enough."""
        call()
        count = 1
        while self._run(call, count) < SHORTEST and count < MOST_CALLS:
            count *= 2
        self._calls[id(call)] = count

    def sample(self, call: Callable[[], Any]) -> Reading:
        count = self._calls.get(id(call), 1)
        return Reading(self._run(call, count) / count)

    def _run(self, call: Callable[[], Any], count: int) -> float:
        started = self.clock()
        for _ in range(count):
            call()
        return self.clock() - started

    def finish(self) -> None:
        """A CPU call is synchronous."""
