"""One point of a climb: the green rungs and their opponents at one size, checked there and timed in turn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from warpwise.lab.attempt import attempt
from warpwise.lab.guard import poison, storage_bytes
from warpwise.lab.impostors import require_telling
from warpwise.lab.ladder import Entry, Point
from warpwise.lab.problem import Instance, Problem, with_copies
from warpwise.lab.timing.compare import WRONG, Rules, measure
from warpwise.lab.timing.roofline import Ceilings
from warpwise.lab.timing.rotation import rotated
from warpwise.lab.timing.samples import Timer
from warpwise.lab.timing.timing import Timing, ratio
from warpwise.lab.verdict import Failure, number
from warpwise.operation import Case, Op, Rung, Unsized
from warpwise.operation.spec import as_tuple, single

COMPILED = "torch.compile"


def eager_name(op: Op) -> str:
    """What PyTorch's own computation is called beside the rungs: the vendor's library that it runs, or torch."""
    return op.spec.vendor or "torch"


def opponents(op: Op, compiled: bool = True) -> dict[str, Callable[..., Any]]:
    """PyTorch eager, torch.compile of it and the specification's own opponents, by name."""
    found: dict[str, Callable[..., Any]] = {eager_name(op): op.spec.eager}
    if compiled:
        torch.compiler.reset()
        found[COMPILED] = torch.compile(op.spec.eager, dynamic=False)
    return found | dict(op.spec.opponents)


Invocation = Callable[[tuple[Any, ...], tuple[Any, ...]], Any]


class _Runner:
    """A contestant with its own input sets, and for a rung its own outputs to fill; ``result`` is the last call's."""

    def __init__(
        self, name: str, call: Invocation, sets: Sequence[tuple[Any, ...]], outputs: Sequence[tuple[Any, ...]]
    ) -> None:
        self.name, self.outputs = name, outputs
        self.result: Any | None = None
        self._call, self._sets, self._next = call, sets, 0

    def __call__(self) -> None:
        position = self._next
        self._next = (position + 1) % len(self._sets)
        self.result = self._call(self.outputs[position], self._sets[position])

    def poison(self) -> None:
        """Fill the outputs with what no right kernel leaves behind."""
        for output in (tensor for made in self.outputs for tensor in made if isinstance(tensor, torch.Tensor)):
            storage_bytes(output).fill_(poison(output.dtype))


@dataclass
class Contest:
    """The point under way: who takes part, who was found wrong here, and what to say of the others."""

    op: Op
    problem: Problem
    case: Case
    dtype: torch.dtype
    seed: int
    runners: dict[str, _Runner] = field(default_factory=dict)
    kinds: dict[str, Literal["rung", "opponent"]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    lost: bool = False

    def enter_rungs(self, rungs: Sequence[Rung], instance: Instance, sets: Sequence[tuple[Any, ...]]) -> None:
        """Every rung that takes this size and is right at it; the others get a note or a failure."""
        for rung in rungs:
            if self.lost:
                return
            self.kinds[rung.name] = "rung"
            outcome = attempt(self.op, rung, instance, runs=1)
            self.lost = outcome.lost
            if outcome.skipped:
                self.notes[rung.name] = outcome.skipped
            elif outcome.failure is not None:
                self.failures[rung.name], self.notes[rung.name] = outcome.failure, "wrong at this size"
            else:
                outputs = [self.op.allocate(*args) for args in sets]
                own = [with_copies(self.op.spec, args) for args in sets]
                self.runners[rung.name] = _Runner(rung.name, _launcher(self.op, rung), own, outputs)

    def enter_opponents(
        self, named: dict[str, Callable[..., Any]], instance: Instance, sets: Sequence[tuple[Any, ...]]
    ) -> None:
        """Every opponent that runs here; one that is less exact than a rung must be takes part with a note."""
        for name, function in named.items():
            self.kinds[name] = "opponent"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = instance.eager(function)
            except Exception as error:  # noqa: BLE001 - another's library may refuse this size in any way
                self.notes[name] = f"did not run: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
                continue
            if reason := _wrong(instance, result):
                self.notes[name] = f"outside the tolerance: {reason}"
            own = [with_copies(self.op.spec, args) for args in sets]
            self.runners[name] = _Runner(name, _caller(function), own, [()] * len(sets))

    def wrong(self, instance: Instance, name: str, result: Any) -> str | None:
        """What is wrong with a rung's ``result``, or None; an opponent's is not judged."""
        if self.kinds[name] != "rung" or self.op.spec.parsed.mutated:  # each timed run changed the arguments again
            return None
        return _wrong(instance, instance.outputs(as_tuple(result), instance.args))

    def blame(self, timings: dict[str, Timing]) -> None:
        """Rungs whose outputs were wrong after the timed runs are wrong."""
        for name, timing in timings.items():
            if timing.void.startswith(WRONG):
                self.failures[name] = Failure("value", timing.void, self.case, self.dtype, self.seed)

    def point(self, timings: dict[str, Timing], telling: tuple[str, ...]) -> Point:
        """Entries in the order they came in, each rung with its ratio to the fastest opponent."""
        usable = {name: timing for name, timing in timings.items() if not timing.void}
        rivals = [name for name in usable if self.kinds[name] == "opponent" and not self.notes.get(name)]
        best = min(rivals, key=lambda name: usable[name].median, default="")
        entries = []
        for name, kind in self.kinds.items():
            beside = ratio(usable[best], usable[name]) if best and name in usable else None
            timing = timings.get(name)
            note = self.notes.get(name) or (timing.void if timing else "")
            entries.append(Entry(name, kind, timing, beside, note))
        remarks = tuple(
            f"{name} would pass at this size: the shorter sums of the cases tell them apart" for name in telling
        )
        return Point(self.case, self.dtype, tuple(entries), best, remarks)


def _launcher(op: Op, rung: Rung) -> Invocation:
    def call(outputs: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        for output in outputs:
            if isinstance(output, Unsized):
                output.tensor = None
        op.launch(rung, outputs, *args)
        return single(outputs)

    return call


def _caller(function: Callable[..., Any]) -> Invocation:
    return lambda outputs, args: function(*args)


def _wrong(instance: Instance, results: Sequence[torch.Tensor]) -> str | None:
    """The first element of ``results`` that is outside the tolerance, or None."""
    for position, output in enumerate(results):
        found = instance.compare(position, output, results)
        if not found.right:
            name = instance.results[position].name
            if found.index is None:
                return f"{name} {found.reason}"
            expected = f"{number(found.expected)} ± {found.tolerance:.3g}"
            return f"{name}{list(found.index)} is {number(found.actual)}, expected {expected}"
    return None


def time_point(
    op: Op, problem: Problem, case: Case, dtype: torch.dtype, rungs: Sequence[Rung], seeds: Sequence[int], timer: Timer,
    rules: Rules, ceilings: Callable[[torch.dtype | str], Ceilings | None], rivals: dict[str, Callable[..., Any]],
    watch: Callable[[int, float], None] | None = None,
) -> tuple[Point, Contest]:  # fmt: skip
    """Check and time ``rungs`` and ``rivals`` at one size and dtype.

    A rung is timed only if it is right at this size. The outputs of the timed runs, poisoned after the warm-up, are
    compared with the float64 reference again. ``ceilings`` returns those of a dtype or of units. Raises
    ``VacuousProblem`` if an impostor passes here.
    """
    telling = require_telling(problem, case, dtype, seeds)
    instance = problem.instance(case, dtype, seeds[0])
    sets = rotated(instance.args, timer.cache_bytes)
    contest = Contest(op, problem, case, dtype, seeds[0])
    contest.enter_rungs(rungs, instance, sets)
    if contest.lost:
        return contest.point({}, telling), contest
    contest.enter_opponents(rivals, instance, sets)

    def poisoned() -> None:
        for runner in contest.runners.values():
            runner.poison()

    def check(name: str, result: Any) -> str | None:
        return contest.wrong(instance, name, result)

    cost, shared = op.spec.cost(*instance.args), ceilings(op.spec.units or dtype)
    own = {rung.name: ceilings(rung.units) for rung in rungs if rung.units}
    timings = (
        measure(contest.runners, timer, rules, cost, shared, check, poisoned, watch=watch, own=own)
        if contest.runners
        else {}
    )
    contest.blame(timings)
    return contest.point(timings, telling), contest
