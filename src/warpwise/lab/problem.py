"""A specification made concrete: which cases it must have, and for each case and seed the inputs with their references."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from warpwise.lab.errors import IncompleteCases, ProblemError
from warpwise.lab.guard import Snapshot, snapshot
from warpwise.lab.tolerance import Comparison, accumulator, compare
from warpwise.registry import Case, Outputs, Spec

KEPT_BYTES = 512 << 20
KINDS = {
    "ragged": "a size above 8 that is no multiple of 8",
    "empty": "a size of 0",
    "one element": "every size that varies among the cases 1",
    "huge": 'values="huge"',
    "strided": 'layout="strided"',
    "unaligned": 'layout="unaligned"',
}


def parts(outputs: Outputs) -> tuple[torch.Tensor, ...]:
    """The output tensors, whether there are one or several."""
    return (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)


def kinds(case: Case, cases: Sequence[Case]) -> set[str]:
    """Which of ``KINDS`` ``case`` is, among ``cases``."""
    sizes, found = case.sizes, set[str]()
    if case.layout != "contiguous":
        found.add(case.layout)
    if case.values == "huge":
        found.add("huge")
    if any(size == 0 for size in sizes.values()):
        found.add("empty")
    if any(size > 8 and size % 8 for size in sizes.values()):
        found.add("ragged")
    varying = [name for name in sizes if len({other.sizes.get(name) for other in cases}) > 1] or list(sizes)
    if all(sizes[name] == 1 for name in varying):
        found.add("one element")
    return found


def require_kinds(spec: Spec) -> None:
    """Raise ``IncompleteCases`` unless the cases hold every kind, or ``spec.exempt`` maps the missing ones to a reason.

    Huge values are not asked of an operation on integers alone.
    """
    present = set().union(*(kinds(case, spec.cases) for case in spec.cases)) if spec.cases else set()
    excused = dict(spec.exempt)
    if not any(dtype.is_floating_point for dtype in spec.dtypes):
        excused.setdefault("huge", "integers")
    missing = [kind for kind in KINDS if kind not in present and not excused.get(kind)]
    if missing:
        wanted = "; ".join(f"{kind}: {KINDS[kind]}" for kind in missing)
        raise IncompleteCases(
            f"{spec.name}: the cases lack {', '.join(missing)}. Add a case with each of ({wanted}), "
            "or say in the specification's `exempt` why the operation has none"
        )


@dataclass
class Instance:
    """One case, dtype and seed: the arguments, the reference of each output and what rounding errors are measured against."""

    case: Case
    dtype: torch.dtype
    seed: int
    args: tuple[object, ...]
    references: tuple[torch.Tensor, ...]
    magnitudes: tuple[torch.Tensor | None, ...]
    terms: int
    dtypes: tuple[torch.dtype, ...]
    inputs: Snapshot

    @property
    def empty(self) -> bool:
        """Whether no kernel runs: an input without elements, or no output with any."""
        tensors = [value for value in self.args if isinstance(value, torch.Tensor)]
        return any(tensor.numel() == 0 for tensor in tensors) or all(truth.numel() == 0 for truth in self.references)

    @property
    def nbytes(self) -> int:
        kept = (*self.references, *(part for part in self.magnitudes if part is not None))
        return 2 * self.inputs.nbytes + sum(part.numel() * part.element_size() for part in kept)

    def compare(self, position: int, actual: torch.Tensor) -> Comparison:
        """Compare ``actual`` with the reference of output number ``position``."""
        input_dtypes = [value.dtype for value in self.args if isinstance(value, torch.Tensor)]
        accumulate = accumulator(actual.dtype, input_dtypes)
        reference, magnitude = self.references[position], self.magnitudes[position]
        return compare(actual, reference.to(actual.device), _moved(magnitude, actual.device), self.terms, accumulate)


def _moved(tensor: torch.Tensor | None, device: torch.device) -> torch.Tensor | None:
    return None if tensor is None else tensor.to(device)


def _on_cpu(args: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(value.cpu() if isinstance(value, torch.Tensor) else value for value in args)


class Problem:
    """The instances of ``spec`` on ``device``, computed once each and kept while they fit in ``keep`` bytes."""

    def __init__(self, spec: Spec, device: torch.device, keep: int = KEPT_BYTES) -> None:
        self.spec, self.device, self.keep = spec, device, keep
        self.sound: set[object] = set()
        self._kept: OrderedDict[tuple[object, ...], Instance] = OrderedDict()

    def instance(self, case: Case, dtype: torch.dtype, seed: int) -> Instance:
        """The arguments and references of one case, dtype and seed."""
        key = (case.name, tuple(case.sizes.items()), case.values, case.layout, dtype, seed)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        made = self.make(case, dtype, seed)
        self._kept[key] = made
        while len(self._kept) > 1 and sum(kept.nbytes for kept in self._kept.values()) > self.keep:
            self._kept.popitem(last=False)
        return made

    def forget(self) -> None:
        """Let go of every kept instance."""
        self._kept.clear()

    def make(self, case: Case, dtype: torch.dtype, seed: int) -> Instance:
        """Arguments and references computed anew, and not kept."""
        spec = self.spec
        args = spec.inputs(case, dtype, self.device, seed)
        spec.check(*args)
        outputs = parts(spec.outputs(*args))
        references, magnitudes = self._truth(args)
        self._require_truth(case, outputs, references)
        floating = [made.dtype.is_floating_point for made in outputs]
        return Instance(
            case, dtype, seed, args, references,
            tuple(size.to(torch.float64) if real else None for size, real in zip(magnitudes, floating, strict=True)),
            int(spec.terms(*args)), tuple(made.dtype for made in outputs), snapshot(args),
        )  # fmt: skip

    def _truth(self, args: tuple[object, ...]) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """References and magnitudes; where the device's memory is too small for float64, the CPU computes them."""
        try:
            return parts(self.spec.reference(*args)), parts(self.spec.magnitudes(*args))
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            moved = _on_cpu(args)
            return parts(self.spec.reference(*moved)), parts(self.spec.magnitudes(*moved))

    def _require_truth(self, case: Case, outputs: Sequence[torch.Tensor], references: Sequence[torch.Tensor]) -> None:
        if len(outputs) != len(references):
            raise ProblemError(f"{self.spec.name}: {len(outputs)} outputs, but the reference returns {len(references)}")
        for position, (made, truth) in enumerate(zip(outputs, references, strict=True)):
            where = f"{self.spec.name}, {case}: the reference of output {position}"
            if made.shape != truth.shape:
                raise ProblemError(f"{where} has shape {tuple(truth.shape)}, expected {tuple(made.shape)}")
            if made.dtype.is_floating_point and truth.dtype != torch.float64:
                raise ProblemError(f"{where} is {truth.dtype}, expected torch.float64: it must be computed in float64")
