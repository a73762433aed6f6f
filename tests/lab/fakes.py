"""A simulated GPU, which is a timeline, and timers that return listed samples, for tests of the timing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from warpwise.lab.timing.samples import Reading

MICRO = 1e-6


class FakeEvent:
    def __init__(self, gpu: FakeGpu) -> None:
        self._gpu = gpu
        self.at = math.nan

    def record(self) -> None:
        self._gpu.enqueue(0.0, host=1 * MICRO)
        self.at = self._gpu.device

    def query(self) -> bool:
        return self.at <= self._gpu.host

    def synchronize(self) -> None:
        self._gpu.host = max(self._gpu.host, self.at)

    def elapsed_time(self, end_event: FakeEvent) -> float:
        return (end_event.at - self.at) * 1e3


class FakeGpu:
    """Work is queued at a host time and runs when the device is free. ``mhz`` is its clock, which a test may change."""

    name = "Fake GPU"
    l2_bytes = 1000
    resets_persisting = True

    def __init__(self, mhz: float = 1000.0) -> None:
        self.host = self.device = 0.0
        self.mhz = self.max_mhz = mhz
        self.log: list[str] = []

    def enqueue(self, seconds: float, host: float = 5 * MICRO) -> None:
        self.host += host
        self.device = max(self.device, self.host) + seconds

    def event(self) -> FakeEvent:
        return FakeEvent(self)

    def spin(self, cycles: int) -> None:
        self.log.append("spin")
        self.enqueue(cycles / (self.mhz * 1e6))

    def flush(self) -> None:
        self.log.append("flush")
        self.enqueue(40 * MICRO)

    def reset_persisting(self) -> None:
        self.log.append("reset")

    def synchronize(self) -> None:
        self.host = max(self.host, self.device)

    def kernel(self, seconds: float, host: float = 5 * MICRO, waits: bool = False) -> Callable[[], None]:
        """A call whose launch takes ``host`` seconds of the host and whose kernel takes ``seconds``."""

        def call() -> None:
            self.log.append("kernel")
            self.enqueue(seconds, host)
            if waits:
                self.synchronize()

        return call

    def graph(self, call: Callable[[], None], repeats: int) -> Any:
        gpu = self

        class Graph:
            def replay(self) -> None:
                host, device = gpu.host, gpu.device
                for _ in range(repeats):
                    call()
                work = gpu.device - max(host, device)
                gpu.host, gpu.device = host, device
                gpu.enqueue(min(work, gpu.graph_seconds * repeats))

        return Graph()

    graph_seconds = math.inf


class FakeTimer:
    """Return the samples that a test lists for each call, and repeat the last one; ``log`` holds the calls' names.

    Its clock advances by each sample, so a budget allows the same number of samples on every machine.
    """

    place = "Fake GPU"
    method = "a list"
    max_mhz: float | None = None
    cache_bytes = 0

    def __init__(self, **samples: list[float | Reading]) -> None:
        self._samples: dict[str, Iterator[float | Reading]] = {
            name: _endless(values) for name, values in samples.items()
        }
        self.log: list[str] = []
        self.prepared: list[str] = []
        self.finished = False
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def prepare(self, call: Any) -> None:
        self.prepared.append(self._name(call))

    def sample(self, call: Any) -> Reading:
        call()
        name = self._name(call)
        self.log.append(name)
        value = next(self._samples[name])
        reading = value if isinstance(value, Reading) else Reading(value)
        self.now += reading.seconds
        return reading

    def finish(self) -> None:
        self.finished = True

    @staticmethod
    def _name(call: Any) -> str:
        return str(getattr(call, "name", None) or call.__name__)


def _endless(values: list[float | Reading]) -> Iterator[float | Reading]:
    yield from values
    while True:
        yield values[-1]


class Ticks:
    """A host clock that advances by ``step`` at each reading."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now
