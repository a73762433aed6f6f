"""Impostors: results that do not compute the operation. A problem that accepts one cannot detect wrong kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from warpwise.arguments.values import as_tuple, tensors
from warpwise.lab.errors import VacuousProblem
from warpwise.lab.verify.problem import Instance, Problem
from warpwise.operation import Case

SAMPLE = 1 << 20  # number of elements from which the most frequent value is determined
ROUNDED = {torch.float32: torch.float16, torch.float64: torch.float32}
REMEDY = {
    "zeros": "draw inputs whose result is not zero",
    "a constant": "draw inputs whose results differ from element to element",
    "an input returned": "draw inputs that the operation changes",
    "another seed's output": "make the result depend on the values that the seed draws",
    "values rounded to float16": "draw values that need float32; check that `terms` and `magnitude` are not too large",
    "values rounded to float32": "draw values that need float64; check that `terms` and `magnitude` are not too large",
}


def impostors(instance: Instance, other: Sequence[torch.Tensor], position: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the name and result of each impostor for result ``position``; ``other`` are the results of another seed."""
    reference, dtype = instance.results[position].reference, instance.results[position].dtype
    yield "zeros", torch.zeros_like(reference, dtype=dtype)
    if reference.numel() > 1:
        yield "a constant", _constant(reference, dtype)
    for value in tensors(instance.args):
        if value.shape == reference.shape:
            yield "an input returned", value.to(dtype)
    if len(other) == len(instance.results) and other[position].shape == reference.shape:
        yield "another seed's output", other[position].to(dtype)
    if dtype in ROUNDED and not _is_counter(instance, position):
        yield f"values rounded to {str(ROUNDED[dtype]).removeprefix('torch.')}", reference.to(ROUNDED[dtype]).to(dtype)


def _is_counter(instance: Instance, position: int) -> bool:
    """True for a mutated argument of one integer, such as the step of an optimizer: float16 holds small integers."""
    result = instance.results[position]
    one = result.base in instance.spec.parsed.mutated and result.reference.numel() == 1
    return one and float(result.reference).is_integer()


def _constant(reference: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A constant tensor: the mean of a floating-point result, the most frequent value of an integer one."""
    if dtype.is_floating_point:
        finite = reference[reference.isfinite()]
        value = finite.mean() if finite.numel() else reference.new_zeros(())
    else:
        value = reference.flatten()[:SAMPLE].long().mode().values
    return value.to(dtype).expand(reference.shape)


def _passing(instance: Instance, other: Sequence[torch.Tensor], position: int) -> set[str]:
    """The names of the impostors that the comparison accepts as result ``position`` of this instance."""
    return {name for name, result in impostors(instance, other, position) if instance.compare(position, result).right}


def require_no_impostor(problem: Problem, dtype: torch.dtype, cases: Sequence[Case], seeds: Sequence[int]) -> None:
    """Raise ``VacuousProblem`` if an impostor passes, for one of the results, all cases that could reject it.

    These are the cases in which the result has more than one element, or, if there are none (a sum over all elements),
    all cases that are not empty. In other cases an impostor may be right.
    """
    signature = (dtype, tuple(str(case) for case in cases))
    if signature in problem.without_impostors:
        return
    made = [(case, problem.instance(case, dtype, seeds[0])) for case in cases]
    made = [(case, instance) for case, instance in made if not instance.empty]
    for name in dict.fromkeys(result.name for _, instance in made for result in instance.results):
        whole = [
            (case, instance, position)
            for case, instance in made  # an optional output is not present in every case
            if (position := _position(instance, name)) is not None and instance.results[position].reference.numel()
        ]
        rejecting = [one for one in whole if one[1].results[one[2]].reference.numel() > 1] or whole
        survivors: set[str] | None = None
        for case, instance, position in rejecting:
            if survivors is None or survivors:  # else no more references of the other seed are computed
                other = problem.instance(case, dtype, _second(seeds))
                passing = _passing(instance, _references(other), position)
                survivors = passing if survivors is None else survivors & passing
        if survivors:
            raise VacuousProblem(
                f"{problem.spec.name}, {dtype}, {name}: {_named(survivors)} each of the {len(rejecting)} cases that "
                f"could reject it, so these cases do not verify a kernel. What to change: {_remedies(survivors)}"
            )
    problem.without_impostors.add(signature)


def require_no_impostor_at(problem: Problem, case: Case, dtype: torch.dtype, seeds: Sequence[int]) -> tuple[str, ...]:
    """Raise ``VacuousProblem`` if zeros, a constant, an input or another seed's output passes this case.

    Return the rounding impostors that pass: the tolerance of a long sum is larger than the error of rounding the
    result, so cases with shorter sums must reject these.
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
                f"{problem.spec.name}, {case}, {dtype}, {result.name}: {_named(plain)} at this size, so "
                f"the result of a timed run cannot be verified. What to change: {_remedies(plain)}"
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


def _second(seeds: Sequence[int]) -> int:
    return seeds[1] if len(seeds) > 1 else seeds[0] + 1
