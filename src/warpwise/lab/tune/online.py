"""``tune_online``: the first call with new sizes, dtype or layout times a few candidates and PyTorch.

The candidates run on the caller's arguments and write outputs of their own. Candidates that agree with the float64
reference are timed interleaved with PyTorch. The winner is added to the user's table, and used for the rest of the
process.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from warpwise import ranges
from warpwise.arguments.values import first_tensor, map_tensors
from warpwise.cuda.launch import intercept
from warpwise.lab.time_point import TimedPoint, eager_name
from warpwise.lab.timing.compare import FEWEST, Rules, measure, timer_for
from warpwise.lab.timing.environment import current, environment
from warpwise.lab.timing.gpu_timer import WARM_UPS
from warpwise.lab.timing.samples import Timer
from warpwise.lab.timing.timing import Timing
from warpwise.lab.tune.candidates import compile_all, fingerprint
from warpwise.lab.tune.ranking import candidates
from warpwise.lab.tune.tune import won
from warpwise.lab.verify.problem import Instance, Problem
from warpwise.lab.verify.verdict import dtype_name
from warpwise.operation import Case, Choice, Device, Op, Rung, UnknownRung, choice, device_of
from warpwise.tuned import TORCH, Cache, Table, TunedPoint, add_point

SWITCH, BUDGET, TOTAL = "WARPWISE_TUNE", "WARPWISE_TUNE_BUDGET", "WARPWISE_TUNE_TOTAL"
BUDGET_S, TOTAL_S = 0.05, 5.0
COUNT = 3  # candidates beside PyTorch
PRECISION = 0.01
WARM = WARM_UPS + 1  # calls of ``Timer.prepare``
CALLS = WARM + FEWEST  # minimum number of calls to time one candidate
SOURCE = "measured online"


def tune_online(*, budget_s: float = BUDGET_S, total_s: float = TOTAL_S) -> Online:
    """From now on, the first call at each new shape times a few candidates and PyTorch, and the fastest is used.

    This applies to operations with tables, on CUDA tensors, at each dtype, kind of arguments and sizes that the tables
    of this GPU lack. The winner is added to the user's table. A choice stays for the rest of the process, also one that
    was made before this function was called. ``budget_s`` limits the seconds of timed calls at one shape, ``total_s``
    the seconds of all measurements of the process. If a limit is reached, or a call must not be measured, the tables
    choose. Calls are not measured during CUDA graph capture or tracing, under a profiler, with
    ``torch.use_deterministic_algorithms(True)``, and for operations that change their arguments.

    The returned object has the measured ``points`` and ``stop()``. Raises ``ValueError`` for a budget of 0 or less.
    """
    for name, seconds in (("budget_s", budget_s), ("total_s", total_s)):
        if not 0 < seconds < math.inf:
            raise ValueError(f"tune_online: expected {name} in seconds above 0, got {seconds}")
    online = Online(budget_s, total_s)
    if isinstance(choice.online, Online):
        online.chosen = choice.online.chosen
    choice.online = online
    return online


def from_environment() -> None:
    """Call ``tune_online`` if ``WARPWISE_TUNE=online``, with ``WARPWISE_TUNE_BUDGET`` and ``WARPWISE_TUNE_TOTAL``.

    Raises ``ValueError`` for another value of ``WARPWISE_TUNE``, or if a budget is not a number above 0.
    """
    switch = os.environ.get(SWITCH, "")
    if switch not in ("", "online"):
        raise ValueError(f"{SWITCH}: expected 'online' or no value, got {switch!r}")
    if switch:
        tune_online(budget_s=_seconds(BUDGET, BUDGET_S), total_s=_seconds(TOTAL, TOTAL_S))


def _seconds(variable: str, default: float) -> float:
    text = os.environ.get(variable) or str(default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"{variable}: expected seconds above 0, such as {default}, got {text!r}")
    return seconds


@dataclass
class Online:
    """Measures calls and keeps the choices; ``operation.choice`` calls it. ``points``: measured points by operation.

    ``spent_s`` is the host time of all measurements, with verification and without compilation.
    """

    budget_s: float = BUDGET_S
    total_s: float = TOTAL_S
    timer: Callable[[torch.device], Timer] = timer_for
    spent_s: float = 0.0
    points: list[tuple[str, TunedPoint]] = field(default_factory=list)
    stopped: bool = False
    chosen: Cache = field(default_factory=Cache, repr=False)  # from an operation, device and point's key to a Choice
    _environments: dict[Device, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    _warned: set[str] = field(default_factory=set, repr=False)
    _lock: Any = field(default_factory=threading.RLock, repr=False)  # a candidate may call another operation

    def stop(self) -> None:
        """Stop measuring. The choices stay."""
        self.stopped = True

    def __call__(self, op: Op, args: Sequence[Any], found: Choice, runs: bool) -> Choice:
        """Return the choice for ``args``. ``found`` is the tables' choice. Measures only if the call then ``runs``."""
        assert op.tables is not None
        kind, sizes = op.tables.describe(*args)
        if min(sizes.values(), default=1) < 1:
            return found
        dtype, device = dtype_name(op.spec.dtype(args)), first_tensor(args).device
        blank = TunedPoint(dtype, kind, dict(sizes), TORCH, math.nan, "", None, 0)
        key = op.tables.op, device_of(device), *blank.key()
        kept: Choice | None = self.chosen.get(key)
        if kept is None and runs:
            with self._lock:
                kept = self.chosen.get(key)
                if kept is None:
                    measurable = self._allowed(op, device) and not _known(op, device_of(device), blank, found)
                    kept = self.chosen[key] = self._first(op, args, found, blank) if measurable else found
        return kept if kept is not None and (kept.name is None or _takes(op, kept.name, args)) else found

    def _allowed(self, op: Op, device: torch.device) -> bool:
        """False if further launches are not allowed, if times would be distorted, or if the budget is used up."""
        return not (
            op.spec.parsed.mutated
            or self.stopped
            or self.spent_s >= self.total_s
            or torch.compiler.is_compiling()
            or capturing(device)
            or torch.are_deterministic_algorithms_enabled()
            or intercept.INTERCEPTORS
            or ranges.profiling_active()
        )

    def _first(self, op: Op, args: Sequence[Any], found: Choice, blank: TunedPoint) -> Choice:
        """Measure, and return the winner. Without a measurement return ``found``, or PyTorch if ``found`` is wrong."""
        device, wrong = first_tensor(args).device, dict[str, str]()
        try:
            with torch.no_grad(), current(device), torch.random.fork_rng([device] if device.type == "cuda" else []):
                given = map_tensors(torch.Tensor.detach, tuple(args))
                point = self._measured(op, given, blank, self.timer(device), wrong)
        except Exception as error:  # noqa: BLE001 - the call runs without a measurement too
            point = None
            self._warn(op.name, f"{op.name}: not measured: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
        for name, reason in wrong.items():
            self._warn(f"{op.name} {name}", f"{op.name}: {name} is not used: {reason}")
        if point is not None:
            self._keep(op, device, point)
            return _choice(point)
        if found.rung in {name.partition("@")[0] for name in wrong}:
            return Choice(None, reason=f"{found.name} fails on these arguments", source=SOURCE)
        return found

    def _measured(
        self, op: Op, args: tuple[Any, ...], blank: TunedPoint, timer: Timer, wrong: dict[str, str]
    ) -> TunedPoint | None:
        """Return the measured point, or None if it does not fit the budget. ``wrong`` gets failed candidates."""
        eager, device = _Eager(op, args), first_tensor(args).device
        eager()  # may load libraries
        with self._charged(timer):
            if 2 * CALLS * timer.sample(eager).seconds > self.budget_s:  # with one candidate that is as fast
                return None
        rungs = [op.rung(name) for name in candidates(op, args, COUNT)]
        compile_all(op, rungs, args, device)
        with self._charged(timer):
            problem, case = Problem(op, device, on_cpu=False), Case("the caller's arguments", blank.sizes)
            instance = problem.of(args, case, op.spec.dtype(args))
            if not any(bool(result.reference.any()) for result in instance.results):
                return None  # zeros verify nothing
            timed = TimedPoint(op, problem, case, instance.dtype, instance.seed)
            timings = self._timings(timed, rungs, instance, timer)
        wrong |= {name: failure.message for name, failure in timed.failures.items()}
        cost = op.spec.cost(*args)
        work = cost.flops or cost.bytes
        return _decided(
            replace(blank, work=work, candidates=len(rungs), fingerprint=fingerprint(rungs)), timings, eager.name
        )

    def _timings(self, timed: TimedPoint, rungs: Sequence[Rung], instance: Instance, timer: Timer) -> dict[str, Timing]:
        """Verify ``rungs``; time PyTorch and those that fit the budget, the fastest first. Verify again at the end."""
        rival, sets = eager_name(timed.op), [instance.args]
        timed.add_rungs(rungs, instance, sets)
        if timed.lost:
            return {}
        timed.add_opponents({rival: timed.op.spec.eager}, instance, sets)
        first = {name: timer.sample(call).seconds for name, call in timed.candidates.items()}
        taking_part, left = dict[str, Any](), self.budget_s
        for name in sorted(first, key=lambda name: (name != rival, first[name])):
            left -= CALLS * first[name]
            if left >= 0:
                taking_part[name] = timed.candidates[name]
        if rival not in taking_part or len(taking_part) < 2:
            return {}

        def poisoned() -> None:
            for candidate in taking_part.values():
                candidate.poison()

        rules = Rules(PRECISION, self.budget_s - WARM * sum(first[name] for name in taking_part))
        check = lambda name, result: timed.compare(instance, name, result)
        timings = measure(taking_part, timer, rules, check=check, reset=poisoned)
        timed.add_failures(timings)
        return timings

    def _keep(self, op: Op, device: torch.device, point: TunedPoint) -> None:
        """Add ``point`` to the user's table. This process keeps using the tables that it has read."""
        assert op.tables is not None
        about = device_of(device)
        self.points.append((op.name, point))
        if about not in self._environments:
            self._environments[about] = environment(device)
        table = Table(op.name, about, environment=self._environments[about])
        try:
            add_point(op.tables.user_file(about), table, point)
        except OSError as error:
            self._warn("table", f"{op.name}: the measured choice is not stored: {error}")

    @contextlib.contextmanager
    def _charged(self, timer: Timer) -> Iterator[None]:
        """Add the time of the context to ``spent_s``; that of a measurement inside it counts once."""
        before, started = self.spent_s, timer.clock()
        try:
            yield
        finally:
            self.spent_s = before + timer.clock() - started

    def _warn(self, about: str, message: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            warnings.warn(message, stacklevel=2)


def capturing(device: torch.device) -> bool:
    """True if the current stream of ``device`` is being captured into a CUDA graph."""
    with current(device):
        return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


class _Eager:
    """PyTorch's computation as a call."""

    def __init__(self, op: Op, args: tuple[Any, ...]) -> None:
        self.name, self._op, self._args = eager_name(op), op, args

    def __call__(self) -> None:
        self._op.spec.eager(*self._args)


def _known(op: Op, device: Device, blank: TunedPoint, found: Choice) -> bool:
    """True if ``found`` was measured at exactly these sizes on this device."""
    assert op.tables is not None
    points = (point for table in op.tables.tables(device) if table.device == device for point in table.points)
    return any((point.key(), point.winner) == (blank.key(), found.name or TORCH) for point in points)


def _takes(op: Op, name: str, args: Sequence[Any]) -> bool:
    try:
        return op.refusal(op.rung(name), *args) is None
    except UnknownRung:
        return False


def _decided(blank: TunedPoint, timings: Mapping[str, Timing], rival: str) -> TunedPoint | None:
    """The point of ``timings``. PyTorch wins if its interval and that of the fastest rung overlap."""
    right = {name: timing for name, timing in timings.items() if not timing.void}
    if rival not in right:
        return None
    point = won(blank, {TORCH if name == rival else name: timing.median for name, timing in right.items()})
    if point is None or point.winner == TORCH or right[point.winner].high < right[rival].low:
        return point
    seconds = point.seconds if point.rival_seconds is None else point.rival_seconds
    return replace(point, winner=TORCH, seconds=seconds, rival=point.winner, rival_seconds=point.seconds)


def _choice(point: TunedPoint) -> Choice:
    if point.winner == TORCH:
        reason = "no candidate was faster at the first call"
        return Choice(None, "", reason, SOURCE, point.seconds, point.rival, point.rival_seconds)
    rung, _, config = point.winner.partition("@")
    reason = "faster than PyTorch at the first call"
    return Choice(rung, config, reason, SOURCE, point.seconds, point.rival, point.rival_seconds)
