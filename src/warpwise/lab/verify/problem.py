"""The instances of a specification: arguments and reference results for each case, dtype and seed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from warpwise.arguments.values import as_tuple, map_tensors, tensors
from warpwise.lab.errors import IncompleteCases, ProblemError
from warpwise.lab.timing.rotation import copied
from warpwise.lab.verify.guard import Snapshot, snapshot
from warpwise.lab.verify.tolerance import OutputComparison, accumulator, compare, rejected
from warpwise.operation import Case, Op, Spec, Unsized

KEPT_BYTES = 512 << 20
KINDS = {
    "ragged": "a size above 8 that is not a multiple of 8",
    "empty": "a size of 0",
    "one element": "every size that varies among the cases is 1",
    "huge": 'values="huge"',
    "strided": 'layout="strided"',
    "unaligned": 'layout="unaligned"',
}


def kinds(case: Case, cases: Sequence[Case]) -> set[str]:
    """The keys of ``KINDS`` that describe ``case``, one of ``cases``."""
    sizes, found = case.sizes, set[str]()
    found |= {layout for layout in (case.layout, *case.layouts.values()) if layout != "contiguous"}
    if case.values == "huge":
        found.add("huge")
    if any(size == 0 for size in sizes.values()):
        found.add("empty")
    if any(size > 8 and size % 8 for size in sizes.values()):
        found.add("ragged")
    varying = [name for name in sizes if len({other.sizes.get(name) for other in cases}) > 1] or list(sizes)
    if varying and all(sizes[name] == 1 for name in varying):
        found.add("one element")
    return found


def require_kinds(spec: Spec) -> None:
    """Raise ``IncompleteCases`` unless there is a case of each kind or ``spec.exempt`` gives the reason why not.

    An operation with integer dtypes only needs no huge values.
    """
    present = set().union(*(kinds(case, spec.cases) for case in spec.cases)) if spec.cases else set()
    exempt = dict(spec.exempt)
    if not any(dtype.is_floating_point for dtype in spec.dtypes):
        exempt.setdefault("huge", "integers")
    missing = [kind for kind in KINDS if kind not in present and not exempt.get(kind)]
    if missing:
        wanted = "; ".join(f"{kind}: {KINDS[kind]}" for kind in missing)
        raise IncompleteCases(
            f"{spec.name}: the cases lack {', '.join(missing)}. Add a case with each of ({wanted}), "
            "or give the reason why there is none in the specification's `exempt`"
        )


@dataclass(frozen=True)
class Result:
    """One tensor that a rung computes: an output, a mutated argument, or one tensor of a mutated list (``params[2]``).

    ``reference`` is float64 or exact. ``magnitude`` is the float64 scale of rounding errors, None for integers.
    ``base`` is the name in the schema.
    """

    name: str
    base: str
    reference: torch.Tensor
    magnitude: torch.Tensor | None
    terms: int
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        return self.reference.nbytes + (self.magnitude.nbytes if self.magnitude is not None else 0)


@dataclass
class Instance:
    """One case, dtype and seed: the arguments and the reference of each result."""

    spec: Spec
    case: Case
    dtype: torch.dtype
    seed: int
    args: tuple[Any, ...]
    results: tuple[Result, ...]
    inputs: Snapshot

    @property
    def empty(self) -> bool:
        """True if no result has an element; no kernel runs then."""
        return all(result.reference.numel() == 0 for result in self.results)

    @property
    def nbytes(self) -> int:
        return 2 * self.inputs.nbytes + sum(result.nbytes for result in self.results)

    def compare(self, position: int, actual: torch.Tensor, others: Sequence[torch.Tensor] = ()) -> OutputComparison:
        """Compare ``actual`` with the reference of result number ``position``.

        ``others`` are all actual results, for a checker that looks at several; the references unless given.
        """
        result = self.results[position]
        output = self.spec.outputs.get(result.base)
        if output is not None and output.check is not None:
            found = list(others) or [one.reference.to(one.dtype) for one in self.results]
            found[position] = actual
            names = [one.name for one in self.results]
            references = {one.name: one.reference for one in self.results}
            reason = output.check(dict(zip(names, found, strict=True)), references, self.spec.named(self.args))
            return rejected(reason, actual.numel())
        accumulate = accumulator(actual.dtype, [tensor.dtype for tensor in tensors(self.args)])
        magnitude = None if result.magnitude is None else result.magnitude.to(actual.device)
        if actual.shape != result.reference.shape:
            expected, got = tuple(result.reference.shape), tuple(actual.shape)
            return rejected(f"has shape {got}, expected {expected}", max(1, actual.numel()))
        return compare(actual, result.reference.to(actual.device), magnitude, result.terms, accumulate)

    def outputs(self, made: Sequence[Any], args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """The actual results in the order of ``results``: outputs ``made``, then the mutated arguments in ``args``."""
        values = [made[position] for position in range(len(self.spec.parsed.outputs))]
        values = [value.tensor if isinstance(value, Unsized) else value for value in values]
        mutated = [args[self.spec.parsed.index(name)] for name in self.spec.parsed.mutated]
        return tuple(tensors([*values, *mutated]))

    def eager(self, function: Any) -> tuple[torch.Tensor, ...]:
        """The results of ``function``, called as ``Spec.eager`` on copies of the mutated arguments.

        A public function leaves saved outputs out: they are replaced by the references, rounded to their dtypes.
        """
        args = with_copies(self.spec, self.args)
        made = as_tuple(function(*args))
        outputs = self.spec.parsed.outputs
        if len(made) == len(self.spec.returned) != len(outputs):
            given = dict(zip(self.spec.returned, made, strict=True))
            known = {result.name: result.reference.to(result.dtype) for result in self.results}
            made = tuple(given[name] if name in given else known.get(name) for name in outputs)
        elif len(made) != len(outputs):
            raise ProblemError(
                f"{self.spec.name}, {self.case}: {_name(function)} returned {len(made)} outputs, "
                f"expected {len(outputs)}: {', '.join(outputs)}"
            )
        return self.outputs(made, args)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def with_copies(spec: Spec, args: Sequence[Any]) -> tuple[Any, ...]:
    """``args`` with copies of the arguments that the operation writes to."""
    places = {spec.parsed.index(name) for name in spec.parsed.mutated}
    return tuple(map_tensors(copied, value) if place in places else value for place, value in enumerate(args))


class Problem:
    """The instances of ``op`` on ``device``. Each is computed once; the latest are kept, up to ``keep`` bytes.

    A reference that does not fit on the GPU in float64 is computed on the CPU, unless ``on_cpu`` is false.
    """

    def __init__(self, op: Op, device: torch.device, keep: int = KEPT_BYTES, on_cpu: bool = True) -> None:
        self.op, self.spec, self.device, self.keep, self.on_cpu = op, op.spec, device, keep, on_cpu
        self.without_impostors: set[object] = set()  # dtypes and cases that reject every impostor
        self._kept: OrderedDict[tuple[object, ...], Instance] = OrderedDict()

    def instance(self, case: Case, dtype: torch.dtype, seed: int) -> Instance:
        """The instance of one case, dtype and seed, kept for the next call."""
        key = (repr(case), dtype, seed)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        made = self.make(case, dtype, seed)
        self._kept[key] = made
        while len(self._kept) > 1 and sum(kept.nbytes for kept in self._kept.values()) > self.keep:
            self._kept.popitem(last=False)
        return made

    def forget(self) -> None:
        """Drop every kept instance."""
        self._kept.clear()

    def make(self, case: Case, dtype: torch.dtype, seed: int) -> Instance:
        """Compute the instance of one case, dtype and seed, without keeping it."""
        return self.of(self.spec.arguments(case, dtype, self.device, seed), case, dtype, seed)

    def of(self, args: tuple[Any, ...], case: Case, dtype: torch.dtype, seed: int = 0) -> Instance:
        """Compute the instance of these arguments; ``case``, ``dtype`` and ``seed`` describe them in messages."""
        self.spec.check(*args)
        results = tuple(self._results(case, args))
        return Instance(self.spec, case, dtype, seed, args, results, snapshot(args))

    def _results(self, case: Case, args: tuple[Any, ...]) -> Iterator[Result]:
        spec, outputs = self.spec, self.op.allocate(*args)
        mutated = [args[spec.parsed.index(name)] for name in spec.parsed.mutated]
        try:
            references, magnitudes = self._references(case, args), self._magnitudes(args)
        except torch.cuda.OutOfMemoryError:  # float64 does not fit on the GPU
            torch.cuda.empty_cache()
            if not self.on_cpu:
                raise
            moved = map_tensors(lambda tensor: tensor.cpu(), args)
            references, magnitudes = self._references(case, moved), self._magnitudes(moved)
        for base, template, reference in zip(spec.results, (*outputs, *mutated), references, strict=True):
            wanted, values, scales = _listed(template), _listed(reference), magnitudes.get(base)
            if not isinstance(scales, (list, tuple)):
                scales = [scales] * len(wanted)  # one for all tensors of a list
            for what, given in ("reference", values), ("magnitude", scales):
                if len(given) != len(wanted):
                    raise ProblemError(
                        f"{spec.name}, {case}: the {what} gives {len(given)} tensors for {base}, expected {len(wanted)}"
                    )
            for number, (made, value, scale) in enumerate(zip(wanted, values, scales, strict=True)):
                name = f"{base}[{number}]" if isinstance(template, (list, tuple)) else base
                yield self._result(case, name, base, made, value, scale, self._terms(base, args))

    def _references(self, case: Case, args: tuple[Any, ...]) -> tuple[Any, ...]:
        names = self.spec.results
        returned = self.spec.reference(*args)
        values = (returned,) if len(names) == 1 else as_tuple(returned)
        if len(values) != len(names):
            raise ProblemError(
                f"{self.spec.name}, {case}: expected the reference to return {', '.join(names)}, got {len(values)} "
                "values"
            )
        return values

    def _magnitudes(self, args: tuple[Any, ...]) -> Mapping[str, Any]:
        outputs = {name: self.spec.outputs.get(name) for name in self.spec.results}
        return {name: out.magnitude(*args) if out and out.magnitude else None for name, out in outputs.items()}

    def _terms(self, name: str, args: Sequence[Any]) -> int:
        """The length of the longest sum behind an element of the result ``name``."""
        terms = self.spec.outputs[name].terms if name in self.spec.outputs else 1
        return int(terms(*args) if callable(terms) else terms)

    def _result(
        self,
        case: Case,
        name: str,
        base: str,
        made: Any,
        reference: torch.Tensor,
        magnitude: Any,
        terms: int,
    ) -> Result:
        where = f"{self.spec.name}, {case}: the reference of {name}"
        if not isinstance(reference, torch.Tensor):
            raise ProblemError(f"{where} is {type(reference).__name__}, expected a tensor")
        known = list(made.shape)
        if len(known) != reference.dim() or any(
            want not in (None, got) for want, got in zip(known, reference.shape, strict=True)
        ):
            raise ProblemError(f"{where} has shape {tuple(reference.shape)}, expected {tuple(known)}")
        if not made.dtype.is_floating_point:
            return Result(name, base, reference, None, terms, made.dtype)
        if reference.dtype != torch.float64:
            raise ProblemError(f"{where} is {reference.dtype}, expected torch.float64: it must be computed in float64")
        scale = (
            reference.abs() if magnitude is None else _scale(f"{self.spec.name}, {case}, {name}", magnitude, reference)
        )
        return Result(name, base, reference, scale, terms, made.dtype)


def _scale(where: str, magnitude: Any, reference: torch.Tensor) -> torch.Tensor:
    """``magnitude`` in float64, expanded to the shape of ``reference``. Raises ``ProblemError`` if it does not fit."""
    shape = tuple(reference.shape)
    if not isinstance(magnitude, torch.Tensor):
        kind = type(magnitude).__name__
        raise ProblemError(f"{where}: expected the magnitude to be a tensor of shape {shape}, got {kind}")
    try:
        return magnitude.to(torch.float64).expand(shape)
    except RuntimeError:
        found = tuple(magnitude.shape)
        raise ProblemError(f"{where}: expected the magnitude to have shape {shape}, got {found}") from None


def _listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
