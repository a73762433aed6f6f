"""``check``: compare a kernel with its float64 reference, in one line of a pytest suite.

>>> from warpwise.testing import check
>>> def test_scale():
...     check(scale, lambda x: 2 * x, lambda seed: torch.randn(1000, generator=torch.Generator().manual_seed(seed)))
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from warpwise import ranges
from warpwise.arguments.values import as_tuple, map_tensors, single, tensors
from warpwise.cuda.errors import UnsupportedFeature
from warpwise.lab.errors import VacuousProblem
from warpwise.lab.timing.environment import current, place
from warpwise.lab.verify.attempt import Attempt, attempt
from warpwise.lab.verify.impostors import REMEDY, impostors, require_no_impostor
from warpwise.lab.verify.problem import Instance, Problem
from warpwise.operation import Case, Cost, Op, Output, Rung, Spec

__all__ = ["check"]

Results = torch.Tensor | tuple[torch.Tensor, ...]
Inputs = torch.Tensor | Sequence[Any] | Callable[[int], Any]
LAYOUTS = ("contiguous", "strided", "unaligned")


def check(
    fn: Callable[..., Any],
    reference: Callable[..., Results],
    inputs: Inputs | Mapping[str, Inputs],
    *,
    outputs: Callable[..., Results] | None = None,
    dtype: torch.dtype | None = None,
    terms: int | Callable[..., int] = 1,
    magnitude: Callable[..., Results] | None = None,
    layouts: Sequence[str] = ("contiguous",),
    seeds: Sequence[int] = (0, 1, 2),
    deterministic: bool = True,
    impostors: bool = True,
) -> float:
    """Raise ``AssertionError`` unless ``fn`` computes ``reference``; return the largest ratio of error to tolerance.

    ``fn(*args)`` returns its outputs. With ``outputs``, ``fn(out, *args)`` fills what ``outputs(*args)`` allocates, a
    tensor or a tuple of tensors, which are poisoned and placed between guard bands. ``inputs`` are the arguments, a
    tensor or a sequence, or ``inputs(seed)`` returns them; a mapping names several such cases. On CPU tensors a CUDA or
    Triton kernel runs emulated, and the message has the file and line of each finding of the emulator.

    ``reference(*args)`` gets floating-point inputs as float64 and returns float64, or exact integers. The tolerance of
    an element follows from ``terms``, the number of terms of the longest sum, and ``magnitude(*args)``, float64, the
    sum of the terms' absolute values (by default the absolute value of the reference). For a matrix product these are
    ``K`` and ``lambda a, b: a.abs() @ b.abs()``. ``dtype`` is that of the outputs, by default that of the first
    floating-point input.

    ``layouts`` adds "strided" and "unaligned" copies of the inputs. Inputs must not change, and two runs must give the
    same bits unless ``deterministic`` is false. Raises ``VacuousProblem`` if zeros, a constant, an input, the result of
    another seed or rounded values would pass (``impostors=False`` for an operation that computes one of these),
    ``UnsupportedFeature`` if the CPU cannot emulate the kernel, and ``TypeError`` or ``ValueError`` for its own
    arguments.
    """
    for argument, value in (("fn", fn), ("reference", reference)):
        if not callable(value):
            raise TypeError(f"check: expected {argument} to be callable, got {type(value).__name__}")
    if not (callable(inputs) or isinstance(inputs, (torch.Tensor, Sequence, Mapping))):
        raise TypeError(
            "check: expected inputs to be a tensor, a sequence, a function of the seed, or a mapping of these, "
            f"got {type(inputs).__name__}"
        )
    cases = dict(inputs) if isinstance(inputs, Mapping) else {"inputs": inputs}
    if not cases:
        raise ValueError("check: expected at least one case in inputs, got an empty mapping")
    if not seeds:
        raise ValueError("check: expected at least one seed in seeds, got none")
    for layout in layouts:
        if layout not in LAYOUTS:
            raise ValueError(f"check: no layout {layout!r}; there are {', '.join(LAYOUTS)}")
    subject = _Subject(fn, reference, cases, outputs, dtype, terms, magnitude, deterministic)
    worst = 0.0
    for name, given in cases.items():
        tries = tuple(seeds) if callable(given) else (0,)
        first = subject.arguments(name, tries[0])
        device, kind = _first_tensor(name, first).device, _first_tensor(name, first).dtype
        problem = Problem(subject.op, device)
        variants = [Case(name, layout=layout) for layout in layouts]
        with current(device):
            if impostors and callable(given):
                require_no_impostor(problem, kind, variants, tries)
            elif impostors:
                _require_no_impostor(problem.instance(variants[0], kind, 0))
            for case in variants:
                for seed in tries:
                    outcome = attempt(subject.op, subject.op.rungs[0], problem.instance(case, kind, seed))
                    worst = max(worst, outcome.worst)
                    _require_right(subject.name, case, kind, seed, device, outcome)
    return worst


@dataclass(frozen=True)
class _Direct(Op):
    """An operation that passes its arguments to its kernel unchanged, also if they are empty."""

    make: Callable[..., Results] = lambda *args: ()

    def allocate(self, *args: Any) -> tuple[torch.Tensor, ...]:
        return as_tuple(self.make(*args))

    def launch(self, rung: Rung, outputs: Sequence[Any], *args: Any) -> None:
        with ranges.named(self.name):
            rung.launch(single(outputs), *args)


class _Subject:
    """The function as an operation with one rung, and its cases."""

    def __init__(
        self,
        fn: Callable[..., Any],
        reference: Callable[..., Results],
        cases: Mapping[str, Inputs],
        outputs: Callable[..., Results] | None,
        dtype: torch.dtype | None,
        terms: int | Callable[..., int],
        magnitude: Callable[..., Results] | None,
        deterministic: bool,
    ) -> None:
        self._cases, self._dtype, self._reference = cases, dtype, reference
        self._last: tuple[tuple[Any, ...], Results] | None = None
        self.name = str(getattr(fn, "__name__", type(fn).__name__))
        first = next(iter(cases))
        example = self.arguments(first, 0)
        _first_tensor(first, example)
        count = len(as_tuple(self._reference_of(*example)))
        names = ["output"] if count == 1 else [f"output_{number}" for number in range(count)]

        def described(position: int) -> Output:
            sized = None if magnitude is None else lambda *args: as_tuple(magnitude(*_exact(args)))[position]
            return Output(terms=terms, magnitude=sized)

        self._names = _argument_names(reference, len(example))
        spec = Spec(
            schema=self._schema(example, names),
            outputs={name: described(at) for at, name in enumerate(names)},
            inputs=self._inputs,
            reference=self._reference_of,
            eager=self._reference_of,
            cost=lambda *args: Cost(0),
        )
        launch = fn if outputs is not None else _filling(fn)
        source = Path(getattr(inspect.unwrap(fn), "__code__", _filling.__code__).co_filename)
        rung = Rung(self.name, "", "cuda", launch, source, strided=True, deterministic=deterministic)
        self.op = _Direct(spec, (rung,), make=outputs or self._outputs)

    def _schema(self, example: Sequence[Any], outputs: Sequence[str]) -> str:
        """A schema for arguments like ``example``. Arguments that are not tensors are passed unchanged."""
        kinds = [
            "Tensor[]"
            if isinstance(value, (list, tuple)) and list(tensors(value))
            else "Tensor"
            if isinstance(value, torch.Tensor)
            else "Scalar"
            for value in example
        ]
        arguments = ", ".join(f"{kind} {name}" for kind, name in zip(kinds, self._names, strict=True))
        returns = ", ".join(f"Tensor {name}" for name in outputs)
        return f"{re.sub(r'[^a-zA-Z0-9_]', '_', self.name)}({arguments}) -> ({returns})"

    def arguments(self, name: str, seed: int) -> tuple[Any, ...]:
        """The arguments of one case."""
        given = self._cases[name]
        made = given(seed) if callable(given) else given
        return (made,) if isinstance(made, torch.Tensor) else tuple(made)

    def _inputs(self, case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> Mapping[str, Any]:
        return dict(zip(self._names, self.arguments(case.name, seed), strict=True))

    def _reference_of(self, *args: Any) -> Results:
        """The reference of float64 copies of ``args``. The last result is kept: shapes and values use it."""
        if self._last is None or any(old is not new for old, new in zip(self._last[0], args, strict=True)):
            self._last = (args, self._reference(*_exact(args)))
        return self._last[1]

    def _outputs(self, *args: Any) -> Results:
        floating = [value.dtype for value in args if isinstance(value, torch.Tensor) and value.dtype.is_floating_point]

        def like(truth: torch.Tensor) -> torch.Tensor:
            usual = floating[0] if floating and truth.dtype.is_floating_point else truth.dtype
            return torch.empty(truth.shape, dtype=self._dtype or usual, device=truth.device)

        truth = self._reference_of(*args)
        return tuple(like(part) for part in as_tuple(truth))


def _argument_names(reference: Callable[..., Any], count: int) -> list[str]:
    """The names of the reference's parameters; ``argument_0`` and so on where it does not name each of ``count``."""
    try:
        parameters = inspect.signature(reference).parameters.values()
    except (TypeError, ValueError):  # a built-in function has no signature
        parameters = {}.values()
    names = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = len(names) >= count and not any(name.startswith("output") for name in names)
    return names[:count] if named else [f"argument_{number}" for number in range(count)]


def _filling(fn: Callable[..., Any]) -> Callable[..., None]:
    """A launcher that fills outputs with what ``fn`` returns."""

    def launch(out: Results, *args: Any) -> None:
        result = fn(*args)
        if not isinstance(result, (torch.Tensor, tuple, list)):
            raise TypeError(
                f"expected a tensor or a tuple of tensors, got {type(result).__name__}; "
                "does it fill an output? Pass outputs="
            )
        made, wanted = as_tuple(result), as_tuple(out)
        if len(made) != len(wanted):
            raise TypeError(f"returned {len(made)} outputs, but the reference returned {len(wanted)}")
        for got, place_for in zip(made, wanted, strict=True):
            if got.shape != place_for.shape or got.dtype != place_for.dtype:
                raise TypeError(
                    f"returned {got.dtype} of shape {tuple(got.shape)}, "
                    f"expected {place_for.dtype} of shape {tuple(place_for.shape)}"
                    + ("" if got.dtype == place_for.dtype else " (pass dtype= if the output has another dtype)")
                )
            place_for.copy_(got)

    return launch


def _exact(args: Sequence[Any]) -> tuple[Any, ...]:
    """Copies with floating point as float64, so that the reference neither rounds nor changes the arguments."""
    return tuple(map_tensors(lambda value: (value.double() if value.is_floating_point() else value).clone(), args))


def _first_tensor(name: str, args: Sequence[Any]) -> torch.Tensor:
    found = next((value for value in args if isinstance(value, torch.Tensor)), None)
    if found is None:
        types = ", ".join(type(value).__name__ for value in args)
        raise TypeError(f"check: {name}: expected a tensor among the inputs, got {types}")
    return found


def _require_no_impostor(instance: Instance) -> None:
    """Raise ``VacuousProblem`` if an impostor passes on the one given set of inputs."""
    if instance.empty:
        return
    references = [result.reference for result in instance.results]
    for position, one in enumerate(instance.results):
        for name, result in impostors(instance, references, position):
            if name != "another seed's output" and instance.compare(position, result).right:
                raise VacuousProblem(
                    f"{instance.case.name}, {one.name}: {name} would pass, so these inputs do not verify a kernel. "
                    f"What to change: {REMEDY[name]}; or pass impostors=False if the operation computes that"
                )


def _require_right(
    name: str, case: Case, dtype: torch.dtype, seed: int, device: torch.device, outcome: Attempt
) -> None:
    layout = "" if case.layout == "contiguous" else f", {case.layout}"
    where = f"{case.name}{layout}, {str(dtype).removeprefix('torch.')}, seed {seed}, on {place(device)}"
    if outcome.skipped:
        raise UnsupportedFeature(f"{name} cannot be checked here ({where}): {outcome.skipped}")
    if outcome.failure is None:
        return
    message = outcome.failure.message
    if outcome.failure.kind == "input":  # the rest of the message is about the schema of an operation
        message = (
            f"{message.partition(';')[0]}: an input must not change; to check a function that writes to an input, "
        )
        message += "copy the input in fn and return the copy"
    if outcome.failure.kind == "nondeterministic":
        message = message.replace("set deterministic=False in the rung", "pass deterministic=False")
    lines = [f"{name} is wrong ({where}):", message]
    if outcome.failure.kind == "value" and outcome.worst:
        lines.append(f"the largest error is {outcome.worst:.3g} times the tolerance")
    if outcome.lost:
        lines.append("the CUDA context is lost: nothing else can run on the GPU in this process")
    raise AssertionError("\n".join(lines))
