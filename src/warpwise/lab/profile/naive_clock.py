"""Compare common ways to time a call with a host clock or CUDA events to the lab's timing."""

from __future__ import annotations

import time as host
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

import torch

from warpwise.lab.profile.record import _device, named
from warpwise.lab.profile.result import TEMPLATES
from warpwise.lab.timing.compare import time
from warpwise.lab.timing.environment import current, place
from warpwise.lab.timing.gpu import Gpu
from warpwise.lab.timing.samples import Timer
from warpwise.lab.timing.timing import duration

REPEATS = 100
CLOSE = 0.05  # relative difference from the lab's time that counts as the same
ONLY_A_GPU = (
    "On a CPU a call is synchronous, so a clock that is read without synchronising is correct here; on a GPU it times "
    "the launch and not the kernel. Run this on a machine with a GPU to see the difference."
)


@dataclass(frozen=True)
class ClockReading:
    """One way to time a call: the method, the seconds it gives, and what they include."""

    method: str
    seconds: float
    why: str


@dataclass(frozen=True)
class NaiveClock:
    """The readings of ``name`` on ``place``, the lab's last; ``remark`` states what needs a GPU."""

    name: str
    place: str
    readings: tuple[ClockReading, ...]
    remark: str = ""

    @property
    def lab(self) -> ClockReading:
        return self.readings[-1]

    def off(self, reading: ClockReading) -> str:
        """A reading over the lab's: ``12 ×``, ``0.08 ×``, or "the same"."""
        if reading is self.lab:
            return ""
        factor = reading.seconds / self.lab.seconds
        if abs(factor - 1) <= CLOSE:
            return "the same"
        return f"{factor:,.0f} ×" if factor >= 100 else f"{factor:.2g} ×" if factor < 10 else f"{factor:.0f} ×"

    def __str__(self) -> str:
        wide = max(len(reading.method) for reading in self.readings)
        lines = [f"{self.name} on {self.place}"]
        lines += [
            f"{reading.method:<{wide}}  {duration(reading.seconds):>9}  {self.off(reading):>8}  {reading.why}"
            for reading in self.readings
        ]
        return "\n".join([*lines, *([self.remark] if self.remark else [])])

    def _repr_html_(self) -> str:
        rows = [
            (reading.method, duration(reading.seconds), self.off(reading), reading.why) for reading in self.readings
        ]
        return str(TEMPLATES.render("naive_clock.html", clock=self, rows=rows))

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can represent; times in seconds."""
        return {
            "name": self.name,
            "place": self.place,
            "remark": self.remark,
            "readings": [
                {
                    "method": reading.method,
                    "seconds": reading.seconds,
                    "times_lab": reading.seconds / self.lab.seconds,
                    "why": reading.why,
                }
                for reading in self.readings
            ],
        }


def naive_clock(
    function: Callable[..., Any],
    *args: Any,
    device: torch.device | str | None = None,
    name: str | None = None,
    repeats: int = REPEATS,
    clock: Callable[[], float] = host.time,
    gpu: Gpu | None = None,
    timer: Timer | None = None,
) -> NaiveClock:
    """Time ``function(*args)`` by ``time.time``, by CUDA events and by the lab, and explain what each time includes.

    On a GPU: without synchronising, synchronised after each call, synchronised once after a loop, by events. On a CPU:
    the first call, one call, a mean and a median. ``device`` is by default that of the tensors among ``args``, ``name``
    that of the function. ``clock``, ``gpu`` and ``timer`` can be replaced. The function must not have run before, so
    that its first call is measured. Raises ``ValueError`` unless ``repeats`` is at least 2.
    """
    if repeats < 2:
        raise ValueError(f"naive_clock: expected repeats of at least 2, got {repeats}")
    where = _device(device, args)

    def call() -> None:
        function(*args)

    with current(where):
        if gpu is not None or where.type == "cuda":
            readings = _on_gpu(call, gpu or Gpu(where), clock, repeats)
        else:
            readings = _on_cpu(call, clock, repeats)
        timing = time(function, *args, device=where, timer=timer)
    what = f"{timing.method}, median of {timing.samples}"
    readings.append(
        ClockReading(f"the lab ({what})", timing.median, _lab_holds(where.type == "cuda" or gpu is not None))
    )
    remark = "" if gpu is not None or where.type == "cuda" else ONLY_A_GPU
    return NaiveClock(name or named(function), place(where), tuple(readings), remark)


def _lab_holds(on_gpu: bool) -> str:
    if on_gpu:
        return "the kernel only: launch hidden by a spinning kernel, cold L2, throttled samples dropped"
    return "enough calls per sample for the clock's resolution; a median with its interval"


def _once(call: Callable[[], None], clock: Callable[[], float], after: Callable[[], None]) -> float:
    started = clock()
    call()
    after()
    return clock() - started


def _nothing() -> None:
    """A CPU call is synchronous."""


def _on_gpu(call: Callable[[], None], gpu: Gpu, clock: Callable[[], float], repeats: int) -> list[ClockReading]:
    gpu.synchronize()
    first = _once(call, clock, gpu.synchronize)
    launches, waited, events = [], [], []
    for _ in range(repeats):
        gpu.synchronize()
        launches.append(_once(call, clock, _nothing))
    gpu.synchronize()
    for _ in range(repeats):
        waited.append(_once(call, clock, gpu.synchronize))
    started = clock()
    for _ in range(repeats):
        call()
    gpu.synchronize()
    loop = (clock() - started) / repeats
    for _ in range(repeats):
        start, end = gpu.event(), gpu.event()
        gpu.synchronize()
        start.record()
        call()
        end.record()
        end.synchronize()
        events.append(start.elapsed_time(end) * 1e-3)
    return [
        ClockReading(
            "time.time, the first call, synchronised",
            first,
            "one-time compilation, module loading and warm-up",
        ),
        ClockReading(
            "time.time, not synchronised",
            median(launches),
            "the launch only: the call returns when the kernel is queued",
        ),
        ClockReading(
            "time.time, synchronised after each call",
            median(waited),
            "the kernel, its launch, and the host's wake-up after it; small inputs hit in L2",
        ),
        ClockReading(
            f"time.time, synchronised once after {repeats} calls",
            loop,
            "launches overlap with previous kernels: correct for a long kernel, else the launch rate; L2 warm",
        ),
        ClockReading(
            "CUDA events around one call",
            median(events),
            "no host clock, but the device idles between the events until the launch arrives; L2 warm",
        ),
    ]


def _on_cpu(call: Callable[[], None], clock: Callable[[], float], repeats: int) -> list[ClockReading]:
    first = _once(call, clock, _nothing)
    singles = [_once(call, clock, _nothing) for _ in range(repeats)]
    tick = _tick(clock)
    return [
        ClockReading(
            "time.time, the first call",
            first,
            "one-time imports, compilation and allocation, and cold caches",
        ),
        ClockReading(
            "time.time, one call",
            singles[0],
            f"one sample of {repeats} that range from {duration(min(singles))} to {duration(max(singles))}; "
            f"the clock steps by {duration(tick)}",
        ),
        ClockReading(
            f"time.time, mean of {repeats} calls",
            mean(singles),
            f"includes every interruption: the slowest call alone adds {duration(max(singles) / repeats)}",
        ),
        ClockReading(
            f"time.time, mean of {repeats} calls with the first",
            (first + sum(singles)) / (repeats + 1),
            "a loop without warm-up: includes the first call",
        ),
        ClockReading(
            f"time.time, median of {repeats} calls",
            median(singles),
            "excludes interruptions, but not the clock's resolution",
        ),
    ]


def _tick(clock: Callable[[], float]) -> float:
    """The smallest observed step of the clock in seconds."""
    smallest = float("inf")
    for _ in range(20):
        started = now = clock()
        for _ in range(1 << 20):
            now = clock()
            if now != started:
                break
        smallest = min(smallest, now - started) if now > started else smallest
    return 0.0 if smallest == float("inf") else smallest
