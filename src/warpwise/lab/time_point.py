"""``time_point``: verify and time the rungs of an operation and their opponents at one size and dtype."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from warpwise.arguments.values import as_tuple, single
from warpwise.lab.ladder import Entry, Point
from warpwise.lab.timing.compare import WRONG, Rules, measure
from warpwise.lab.timing.roofline import Roofline
from warpwise.lab.timing.rotation import rotated
from warpwise.lab.timing.samples import Timer
from warpwise.lab.timing.timing import Timing, ratio
from warpwise.lab.verify.attempt import attempt
from warpwise.lab.verify.guard import poison, storage_bytes
from warpwise.lab.verify.impostors import require_no_impostor_at
from warpwise.lab.verify.problem import Instance, Problem, with_copies
from warpwise.lab.verify.verdict import Failure
from warpwise.operation import Case, Op, Rung, Unsized

COMPILED = "torch.compile"


def eager_name(op: Op) -> str:
    """The name of PyTorch's own computation in tables: the vendor library that it calls, or torch."""
    return op.spec.vendor or "torch"


def opponents(op: Op, compiled: bool = True) -> dict[str, Callable[..., Any]]:
    """PyTorch eager, torch.compile of it and the specification's own opponents, by name."""
    found: dict[str, Callable[..., Any]] = {eager_name(op): op.spec.eager}
    if compiled:
        torch.compiler.reset()
        found[COMPILED] = torch.compile(op.spec.eager, dynamic=False)
    return found | dict(op.spec.opponents)


Invocation = Callable[[tuple[Any, ...], tuple[Any, ...]], Any]


class _Candidate:
    """A rung or an opponent with its own input sets and, for a rung, outputs. ``result`` is that of the last call."""

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
        """Fill the outputs with a pattern that a correct kernel overwrites."""
        for output in (tensor for made in self.outputs for tensor in made if isinstance(tensor, torch.Tensor)):
            storage_bytes(output).fill_(poison(output.dtype))


@dataclass
class TimedPoint:
    """One size and dtype: timed candidates by name, failures of wrong rungs, and notes on other rungs."""

    op: Op
    problem: Problem
    case: Case
    dtype: torch.dtype
    seed: int
    candidates: dict[str, _Candidate] = field(default_factory=dict)
    kinds: dict[str, Literal["rung", "opponent"]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    lost: bool = False

    def add_rungs(self, rungs: Sequence[Rung], instance: Instance, sets: Sequence[tuple[Any, ...]]) -> None:
        """Add each rung that supports this size and is correct there; the others get a note or a failure."""
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
                self.candidates[rung.name] = _Candidate(rung.name, _launcher(self.op, rung), own, outputs)

    def add_opponents(
        self, named: dict[str, Callable[..., Any]], instance: Instance, sets: Sequence[tuple[Any, ...]]
    ) -> None:
        """Add each opponent that runs here, with a note if its results are outside the tolerance."""
        for name, function in named.items():
            self.kinds[name] = "opponent"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = instance.eager(function)
            except Exception as error:  # noqa: BLE001 - a library may raise anything for a size
                self.notes[name] = f"did not run: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
                continue
            if reason := _wrong(instance, result):
                self.notes[name] = f"outside the tolerance: {reason}"
            own = [with_copies(self.op.spec, args) for args in sets]
            self.candidates[name] = _Candidate(name, _caller(function), own, [()] * len(sets))

    def compare(self, instance: Instance, name: str, result: Any) -> str | None:
        """Return a description of the first error in the ``result`` of a rung, or None. Opponents are not compared."""
        if self.kinds[name] != "rung" or self.op.spec.parsed.mutated:  # each timed run changes the arguments again
            return None
        return _wrong(instance, instance.outputs(as_tuple(result), instance.args))

    def add_failures(self, timings: dict[str, Timing]) -> None:
        """Record a failure for each rung whose outputs were wrong after the timed runs."""
        for name, timing in timings.items():
            if timing.void.startswith(WRONG):
                self.failures[name] = Failure("value", timing.void, self.case, self.dtype, self.seed)

    def point(self, timings: dict[str, Timing], passing: tuple[str, ...]) -> Point:
        """Return the entries in the order of addition, each rung with its ratio to the fastest opponent."""
        usable = {name: timing for name, timing in timings.items() if not timing.void}
        rivals = [name for name in usable if self.kinds[name] == "opponent" and not self.notes.get(name)]
        best = min(rivals, key=lambda name: usable[name].median, default="")
        entries = []
        for name, kind in self.kinds.items():
            beside = ratio(usable[best], usable[name]) if best and name in usable else None
            timing = timings.get(name)
            note = self.notes.get(name) or (timing.void if timing else "")
            entries.append(Entry(name, kind, timing, beside, note))
        remarks = tuple(f"{name} would pass at this size; the cases with shorter sums reject them" for name in passing)
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
    """Return a description of the first element of ``results`` that is outside the tolerance, or None."""
    for position, output in enumerate(results):
        found = instance.compare(position, output, results)
        if not found.right:
            return found.described(instance.results[position].name)
    return None


def time_point(
    op: Op,
    problem: Problem,
    case: Case,
    dtype: torch.dtype,
    rungs: Sequence[Rung],
    seeds: Sequence[int],
    timer: Timer,
    rules: Rules,
    ceilings: Callable[[torch.dtype | str], Roofline | None],
    rivals: dict[str, Callable[..., Any]],
    watch: Callable[[int, float], None] | None = None,
) -> tuple[Point, TimedPoint]:
    """Verify ``rungs`` at one size and dtype, and time the correct ones with ``rivals``.

    Outputs are poisoned after the warm-up and compared with the float64 reference again after the timed runs.
    ``ceilings(dtype_or_units)`` returns the measured ceilings. ``watch(rounds, seconds)`` is called after each round.
    Raises ``VacuousProblem`` if an impostor passes here.
    """
    passing = require_no_impostor_at(problem, case, dtype, seeds)
    instance = problem.instance(case, dtype, seeds[0])
    sets = rotated(instance.args, timer.cache_bytes)
    timed = TimedPoint(op, problem, case, dtype, seeds[0])
    timed.add_rungs(rungs, instance, sets)
    if timed.lost:
        return timed.point({}, passing), timed
    timed.add_opponents(rivals, instance, sets)

    def poisoned() -> None:
        for candidate in timed.candidates.values():
            candidate.poison()

    def check(name: str, result: Any) -> str | None:
        return timed.compare(instance, name, result)

    cost, shared = op.spec.cost(*instance.args), ceilings(op.spec.units or dtype)
    own = {rung.name: ceilings(rung.units) for rung in rungs if rung.units}
    timings = (
        measure(timed.candidates, timer, rules, cost, shared, check, poisoned, watch=watch, own=own)
        if timed.candidates
        else {}
    )
    timed.add_failures(timings)
    return timed.point(timings, passing), timed
