"""Things that do not compute the operation; a problem that one of them solves could not tell a right kernel from a wrong one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from warpwise.lab.errors import VacuousProblem
from warpwise.lab.problem import Instance, Problem
from warpwise.operation import Case
from warpwise.operation.spec import as_tuple, tensors

SAMPLE = 1 << 20  # elements looked at for the most frequent value
ROUNDED = {torch.float32: torch.float16, torch.float64: torch.float32}
REMEDY = {
    "zeros": "draw inputs whose result is not zero",
    "a constant": "draw inputs whose results differ from element to element",
    "an input returned": "draw inputs that the operation changes",
    "another seed's output": "make the result depend on the values that the seed draws",
    "values rounded to float16": "draw values that need float32, and see that `terms` and `magnitude` are not too large",
    "values rounded to float32": "draw values that need float64, and see that `terms` and `magnitude` are not too large",
}


def impostors(instance: Instance, other: Sequence[torch.Tensor], position: int) -> Iterator[tuple[str, torch.Tensor]]:
    """What each impostor would return as output number ``position`` of ``instance``; ``other`` are outputs of another seed."""
    truth, dtype = instance.results[position].reference, instance.results[position].dtype
    yield "zeros", torch.zeros_like(truth, dtype=dtype)
    if truth.numel() > 1:
        yield "a constant", _constant(truth, dtype)
    for value in tensors(instance.args):
        if value.shape == truth.shape:
            yield "an input returned", value.to(dtype)
    if len(other) == len(instance.results) and other[position].shape == truth.shape:
        yield "another seed's output", other[position].to(dtype)
    if dtype in ROUNDED:
        yield f"values rounded to {str(ROUNDED[dtype]).removeprefix('torch.')}", truth.to(ROUNDED[dtype]).to(dtype)


def _constant(truth: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The mean of a floating-point result, or the most frequent value of an integer one, everywhere."""
    if dtype.is_floating_point:
        finite = truth[truth.isfinite()]
        value = finite.mean() if finite.numel() else truth.new_zeros(())
    else:
        value = truth.flatten()[:SAMPLE].long().mode().values
    return value.to(dtype).expand(truth.shape)


def _passing(instance: Instance, other: Sequence[torch.Tensor], position: int) -> set[str]:
    """The impostors that pass as output ``position`` of this instance."""
    return {name for name, result in impostors(instance, other, position) if instance.compare(position, result).right}


def require_no_impostor(problem: Problem, dtype: torch.dtype, cases: Sequence[Case], seeds: Sequence[int]) -> None:
    """Raise ``VacuousProblem`` if one impostor passes, in some output, every case that could tell it apart.

    Those are the cases with more than one output element, or, where no case has (a sum over everything), all that are
    not empty. An impostor may meet the others rightly.
    """
    signature = (dtype, tuple(str(case) for case in cases))
    if signature in problem.sound:
        return
    pairs = [pair for pair in (_two(problem, case, dtype, seeds) for case in cases) if not pair[0].empty]
    for name in dict.fromkeys(result.name for instance, _ in pairs for result in instance.results):
        whole = [
            (instance, other, position)
            for instance, other in pairs  # an optional output is not present in every case
            if (position := _position(instance, name)) is not None and instance.results[position].reference.numel()
        ]
        telling = [one for one in whole if one[0].results[one[2]].reference.numel() > 1] or whole
        survivors: set[str] | None = None
        for instance, other, position in telling:
            if survivors is None or survivors:
                passing = _passing(instance, _references(other), position)
                survivors = passing if survivors is None else survivors & passing
        if survivors:
            raise VacuousProblem(
                f"{problem.spec.name}, {dtype}, {name}: {_named(survivors)} each of the {len(telling)} cases that "
                f"could tell it from the operation, so passing says nothing. What to change: {_remedies(survivors)}"
            )
    problem.sound.add(signature)


def require_telling(problem: Problem, case: Case, dtype: torch.dtype, seeds: Sequence[int]) -> tuple[str, ...]:
    """Raise ``VacuousProblem`` if zeros, a constant, an input or another seed's output passes this one case.

    Returns the rounding impostors that pass it: a long sum allows more error than rounding makes, and the shorter
    sums of other cases must tell those apart.
    """
    instance = problem.instance(case, dtype, seeds[0])
    args = problem.spec.arguments(case, dtype, problem.device, _second(seeds))
    other = instance.outputs(as_tuple(problem.spec.eager(*args)), args)
    rounding: set[str] = set()
    for position, result in enumerate(instance.results):
        if result.reference.numel() == 0:
            continue
        passing = _passing(instance, other, position)
        rounding |= {name for name in passing if name.startswith("values rounded")}
        if plain := passing - rounding:
            raise VacuousProblem(
                f"{problem.spec.name}, {case}, {dtype}, {result.name}: {_named(plain)} at this size, so a time "
                f"here would say nothing. What to change: {_remedies(plain)}"
            )
    return tuple(sorted(rounding))


def _position(instance: Instance, name: str) -> int | None:
    return next((position for position, result in enumerate(instance.results) if result.name == name), None)


def _references(instance: Instance) -> list[torch.Tensor]:
    return [result.reference for result in instance.results]


def _named(impostors: set[str]) -> str:
    names = sorted(impostors)
    return f"{names[0]} passes" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} pass"


def _remedies(impostors: set[str]) -> str:
    return "; ".join(REMEDY[name] for name in sorted(impostors))


def _two(problem: Problem, case: Case, dtype: torch.dtype, seeds: Sequence[int]) -> tuple[Instance, Instance]:
    return problem.instance(case, dtype, seeds[0]), problem.instance(case, dtype, _second(seeds))


def _second(seeds: Sequence[int]) -> int:
    return seeds[1] if len(seeds) > 1 else seeds[0] + 1
