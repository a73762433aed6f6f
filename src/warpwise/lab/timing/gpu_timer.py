"""Samples on a GPU: CUDA events around one call, with cold caches and the launch hidden behind a spinning kernel.

In the stream: spin | event | spin | event | flush L2 | event | the call | event. While the device spins, the host
queues everything behind it, so the last two events enclose device work only. If the device reaches the call before the
host has queued it, the launch may be in the time, and the next sample spins twice as long. The first two events time a
known number of clock cycles, which gives the SM clock of the sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from warpwise.lab.timing.gpu import Gpu
from warpwise.lab.timing.samples import Reading

LEAD = 40_000  # cycles, about 20 µs: hides the launch of the clock measurement
SPIN = 400_000  # cycles, about 200 µs: hides the launch of a few kernels and measures the clock to 1 %
LONGEST_SPIN = 20_000_000  # cycles, about 10 ms: a call that is not queued by then synchronises itself
WARM_UPS = 3
GRAPH_REPEATS = 20


class GpuTimer:
    """One call per sample. ``gpu`` is a ``Gpu`` or a fake."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.clock: Callable[[], float] = time.perf_counter
        self._spins: dict[Callable[[], Any], int] = {}
        self._waits: set[Callable[[], Any]] = set()
        self.place = gpu.name
        self.max_mhz = gpu.max_mhz
        self.cache_bytes = gpu.l2_bytes
        reset = "persisting lines reset" if gpu.resets_persisting else "persisting lines not reset"
        self.method = f"CUDA events, L2 flushed ({reset}), launch hidden"

    def prepare(self, call: Callable[[], Any]) -> None:
        """Warm up, and find a spin that hides the launch of ``call``; no spin hides a call that synchronises."""
        for _ in range(WARM_UPS):
            call()
        self._gpu.synchronize()
        exposed = True
        while exposed and self._spins.get(call, SPIN) < LONGEST_SPIN:
            exposed = self.sample(call).exposed
        if exposed:
            self._waits.add(call)

    def sample(self, call: Callable[[], Any]) -> Reading:
        gpu, cycles = self._gpu, SPIN if call in self._waits else self._spins.get(call, SPIN)
        before, after, start, end = (gpu.event() for _ in range(4))
        gpu.reset_persisting()
        gpu.spin(LEAD)
        before.record()
        gpu.spin(cycles)
        after.record()
        gpu.flush()
        start.record()
        self._call(call)
        end.record()
        exposed = start.query()
        end.synchronize()
        if exposed:
            self._spins[call] = min(2 * cycles, LONGEST_SPIN)
        mhz = cycles / (before.elapsed_time(after) * 1e3)
        return Reading(start.elapsed_time(end) * 1e-3 / self._repeats, mhz, exposed)

    _repeats = 1

    def _call(self, call: Callable[[], Any]) -> None:
        call()

    def finish(self) -> None:
        self._gpu.synchronize()


class GraphTimer(GpuTimer):
    """A CUDA graph of many calls per sample, for kernels of a few microseconds: no gaps between launches, warm L2.

    Only the first call of a sample has a cold cache; rotating inputs avoids hits in the others.
    """

    _repeats = GRAPH_REPEATS

    def __init__(self, gpu: Gpu) -> None:
        super().__init__(gpu)
        self._graphs: dict[Callable[[], Any], Any] = {}
        self.method = f"CUDA events around a graph of {GRAPH_REPEATS} calls, L2 warm"

    def prepare(self, call: Callable[[], Any]) -> None:
        call()
        self._gpu.synchronize()
        self._graphs[call] = self._gpu.graph(call, GRAPH_REPEATS)
        super().prepare(call)

    def _call(self, call: Callable[[], Any]) -> None:
        self._graphs[call].replay() if call in self._graphs else call()
