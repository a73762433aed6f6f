"""``time``: time functions interleaved, in random order in each round, until the medians are precise enough."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

import torch

from warpwise.lab.errors import ImpossibleTime, MeasurementError, WrongAfterTiming
from warpwise.lab.timing.cpu_timer import CpuTimer
from warpwise.lab.timing.environment import current, resolve
from warpwise.lab.timing.gpu import Gpu
from warpwise.lab.timing.gpu_timer import GpuTimer, GraphTimer
from warpwise.lab.timing.roofline import Roofline
from warpwise.lab.timing.rotation import rotated
from warpwise.lab.timing.samples import Clock, Reading, Timer, keep
from warpwise.lab.timing.stats import interval, median
from warpwise.lab.timing.timing import Timing, duration
from warpwise.operation import Cost

FEWEST = 3  # least number of rounds, even beyond the budget
FEW = 6  # least number of samples for a 95 % interval
ENOUGH = 20  # rounds before a function may stop because its interval is narrow
MOST = 5000
IMPOSSIBLE, WRONG = "impossible", "wrong after the timed runs"
EVERY = 5  # rounds between checks of the intervals

Check = Callable[[str, Any], str | None]


@dataclass(frozen=True)
class Rules:
    """When to stop: at ``precision`` (half of the interval over the median) or after ``budget`` seconds in total."""

    precision: float = 0.005
    budget: float = 5.0


@overload
def time(
    functions: Callable[..., Any],
    *args: Any,
    device: torch.device | str | None = ...,
    cost: Cost | None = ...,
    check: Check | None = ...,
    reset: Callable[[], None] | None = ...,
    budget_s: float = ...,
    precision: float = ...,
    ceilings: Roofline | None = ...,
    mode: Literal["events", "graph"] = ...,
    timer: Timer | None = ...,
    seed: int = ...,
) -> Timing: ...
@overload
def time(
    functions: Mapping[str, Callable[..., Any]],
    *args: Any,
    device: torch.device | str | None = ...,
    cost: Cost | None = ...,
    check: Check | None = ...,
    reset: Callable[[], None] | None = ...,
    budget_s: float = ...,
    precision: float = ...,
    ceilings: Roofline | None = ...,
    mode: Literal["events", "graph"] = ...,
    timer: Timer | None = ...,
    seed: int = ...,
) -> dict[str, Timing]: ...
def time(
    functions: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    *args: Any,
    device: torch.device | str | None = None,
    cost: Cost | None = None,
    check: Check | None = None,
    reset: Callable[[], None] | None = None,
    budget_s: float = 5.0,
    precision: float = 0.005,
    ceilings: Roofline | None = None,
    mode: Literal["events", "graph"] = "events",
    timer: Timer | None = None,
    seed: int = 0,
) -> Timing | dict[str, Timing]:
    """Time calls of ``functions`` with ``args``, in seconds.

    For one function this returns its ``Timing``, for a mapping of functions a mapping of their timings by name. A GPU
    is timed by CUDA events, with L2 flushed before each sample and the launch hidden; ``mode="graph"`` times a CUDA
    graph of many calls instead, for kernels of a few microseconds. A CPU is timed by ``perf_counter``. The default
    ``device`` is that of the tensors among ``args``, else the GPU if there is one. If the tensors fit in the cache, the
    calls rotate through copies of them. Emulated kernels must not be timed: their time predicts nothing.

    The functions take turns, in an order that is random from ``seed``. Timing ends when half of each 95 % interval is
    at most ``precision`` of the median, or after ``budget_s`` seconds in total. ``timer`` replaces the device's own.

    ``cost`` and ``ceilings`` give the floor. ``reset`` is called after the warm-up, to poison outputs. After the timed
    runs ``check(name, result)`` is called with the result of each function's last call; it returns the reason why the
    result is wrong, or None. A time that is impossible, or whose result is wrong, is void. If one function is timed,
    ``ImpossibleTime`` or ``WrongAfterTiming`` is raised; if several are, the reason is in ``Timing.void``.
    Raises ``ValueError`` for a budget or a precision of 0 or less, an unknown ``mode``, or if there is no function.
    """
    if budget_s <= 0 or precision <= 0:
        raise ValueError(f"time: expected budget_s and precision above 0, got {budget_s} and {precision}")
    several = isinstance(functions, Mapping)
    named = (
        dict(functions) if isinstance(functions, Mapping) else {getattr(functions, "__name__", "function"): functions}
    )
    if not named:
        raise ValueError("time: expected at least one function, got an empty mapping")
    where = _device(device, args)
    timer = timer or timer_for(where, mode)
    calls = {name: _Call(function, rotated(args, timer.cache_bytes)) for name, function in named.items()}
    with current(where):
        timings = measure(calls, timer, Rules(precision, budget_s), cost, ceilings, check, reset, seed)
    if several:
        return timings
    (single,) = timings.values()
    if single.void:
        raise (ImpossibleTime if single.void.startswith(IMPOSSIBLE) else WrongAfterTiming)(
            f"{single.name}: {single.void}"
        )
    return single


def timer_for(device: torch.device, mode: Literal["events", "graph"] = "events") -> Timer:
    """The timer for ``device``. Raises ``MeasurementError`` for an unsupported device, ``ValueError`` for a mode."""
    if mode not in ("events", "graph"):
        raise ValueError(f"time: expected mode to be 'events' or 'graph', got {mode!r}")
    if device.type == "cuda":
        return GpuTimer(Gpu(device)) if mode == "events" else GraphTimer(Gpu(device))
    if device.type == "cpu":
        return CpuTimer()
    raise MeasurementError(f"time: expected a cuda or cpu device, got {device}")


def _device(device: torch.device | str | None, args: Sequence[Any]) -> torch.device:
    found = next((value.device for value in args if isinstance(value, torch.Tensor)), None)
    return resolve(device if device is not None else found)


class _Call:
    """A function that is called with the input sets in turn; ``result`` is the return value of the last call."""

    def __init__(self, function: Callable[..., Any], sets: Sequence[tuple[Any, ...]]) -> None:
        self._function, self._sets, self._next = function, sets, 0
        self.result: Any = None

    def __call__(self) -> None:
        args = self._sets[self._next]
        self._next = (self._next + 1) % len(self._sets)
        self.result = self._function(*args)


def measure(
    calls: Mapping[str, Any],
    timer: Timer,
    rules: Rules,
    cost: Cost | None = None,
    ceilings: Roofline | None = None,
    check: Check | None = None,
    reset: Callable[[], None] | None = None,
    seed: int = 0,
    clock: Callable[[], float] | None = None,
    watch: Callable[[int, float], None] | None = None,
    own: Mapping[str, Roofline | None] | None = None,
) -> dict[str, Timing]:
    """The loop behind ``time``: each round samples every unconverged call once, in random order.

    A call that has used up its share of the budget stops after six rounds, so that slow calls leave time for fast ones.
    ``watch(rounds, seconds)`` is called with the progress. The order is random from ``seed``, so that no call always
    follows the same one. ``own`` holds the ceilings of calls that use other units than the rest.
    The budget is measured with ``clock``, by default the timer's.
    """
    clock = clock or timer.clock
    for call in calls.values():
        timer.prepare(call)
    if reset is not None:
        reset()
    readings: dict[str, list[Reading]] = {name: [] for name in calls}
    share, converged = rules.budget / max(1, len(calls)), set[str]()
    spent = dict.fromkeys(calls, 0.0)
    shuffler, active, started, rounds = random.Random(seed), set(calls), clock(), 0
    while active and rounds < MOST and (rounds < FEWEST or clock() - started < rules.budget):
        order = sorted(calls)
        shuffler.shuffle(order)
        for name in order:
            if name not in active:
                readings[name].append(Reading(math.nan))
                continue
            began = clock()
            readings[name].append(timer.sample(calls[name]))
            spent[name] += clock() - began
        rounds += 1
        leaving = {name for name in active if rounds >= FEW and spent[name] > share}
        if leaving or (rounds >= ENOUGH and rounds % EVERY == 0):
            converged |= {name for name in active if _known(readings[name], timer, rules.precision)}
            active -= leaving | converged
        if watch is not None:
            watch(rounds, clock() - started)
    timer.finish()
    results = {}
    for name, call in calls.items():
        limits = own.get(name, ceilings) if own else ceilings
        timing = _timing(name, readings[name], timer, spent[name], name in converged, cost, limits)
        results[name] = _checked(timing, call, cost, limits, check)
    return results


def _known(readings: Sequence[Reading], timer: Timer, precision: float) -> bool:
    values = keep([reading for reading in readings if not math.isnan(reading.seconds)], timer.max_mhz).values
    return len(values) >= FEW and interval(values).half_width <= precision


def _timing(
    name: str,
    readings: Sequence[Reading],
    timer: Timer,
    spent: float,
    converged: bool,
    cost: Cost | None,
    ceilings: Roofline | None,
) -> Timing:
    kept = keep(readings, timer.max_mhz)
    clocks = [
        reading.mhz
        for reading, seconds in zip(readings, kept.rounds, strict=True)
        if reading.mhz and not math.isnan(seconds)
    ]
    known = interval(kept.values)
    return Timing(
        name,
        known.median,
        known.low,
        known.high,
        len(kept.values),
        spent,
        timer.place,
        timer.method,
        cost,
        floor=ceilings.floor(cost) if ceilings and cost else 0.0,
        bound=ceilings.bound(cost) if ceilings and cost else "",
        clock=Clock(min(clocks), median(clocks), timer.max_mhz or max(clocks)) if clocks else None,
        converged=converged,
        throttled=kept.throttled,
        exposed=kept.exposed,
        dropped=kept.dropped,
        rounds=kept.rounds,
    )


def _checked(timing: Timing, call: Any, cost: Cost | None, ceilings: Roofline | None, check: Check | None) -> Timing:
    """The timing, void if it is impossible or if the outputs of the timed runs are wrong."""
    reason = check(timing.name, getattr(call, "result", None)) if check else None
    if reason:
        return void(timing, f"{WRONG}: {reason}")
    least = ceilings.impossible(cost) if ceilings and cost else 0.0
    if timing.median < least:
        return void(
            timing,
            f"{IMPOSSIBLE}: {duration(timing.median)}, but the hardware needs at least {duration(least)}; "
            "check that the work is done and synchronised, and that its cost is correct",
        )
    return timing


def void(timing: Timing, reason: str) -> Timing:
    """``timing`` with NaN in place of its numbers, and the reason."""
    return replace(timing, median=math.nan, low=math.nan, high=math.nan, rounds=(), void=reason)
