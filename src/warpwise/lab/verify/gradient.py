"""``verify_gradient``: compare the gradients of an operation with autograd of its float64 reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from warpwise.arguments.values import as_tuple, first_tensor, map_tensors, tensors
from warpwise.lab.errors import ProblemError
from warpwise.lab.timing.environment import place, resolve
from warpwise.lab.verify.verdict import CaseResult, Failure, Verdict
from warpwise.operation import Case, Op
from warpwise.operation.autograd import DERIVED, GRAD, NEEDS
from warpwise.operation.registry import op_of

EXACT = 1e-9  # of the largest element: two float64 computations of one formula differ by less
TWICE = (
    " (in the second derivative: if the backward operation has no gradient, give it gradient=None; a backward function "
    "must use differentiable operators)"
)
ROUNDINGS = 64.0  # units of eps of the operation's own dtype, for an operation that does not take float64


def verify_gradient(
    op: Op | str,
    *,
    device: torch.device | str | None = None,
    cases: Sequence[Case] | None = None,
    seeds: Sequence[int] = (0,),
    clock: Callable[[], float] = time.perf_counter,
) -> Verdict:
    """Compare the gradients of ``op`` with autograd of its float64 reference, for random gradients of its outputs.

    ``op`` is an operation or the name of a registered one.

    For each of ``cases``, by default the specification's, that has normal values, and each of ``seeds`` this compares
    the float64 reference of a linked backward operation, and the gradients that a call of ``op`` records, computed in
    float64 if the operation takes it, else in its first floating-point dtype. If it takes float64 and the backward is
    differentiable, second derivatives are compared too. ``verify`` compares the rungs of a linked backward operation
    with its reference.

    Raises ``ProblemError`` if ``op`` has no gradient, mutates arguments, or its reference is not differentiable.
    """
    op = op_of("verify_gradient", op)
    if op.spec.gradient is None:
        raise ProblemError(f"{op.name}: has no gradient to verify")
    if op.spec.parsed.mutated:
        raise ProblemError(f"{op.name}: an operation that mutates arguments has no gradient: PyTorch records none")
    floating = [dtype for dtype in op.spec.dtypes if dtype.is_floating_point]
    if not floating:
        raise ProblemError(f"{op.name}: none of its dtypes is floating-point, so it has no gradient")
    where, started = resolve(device), clock()
    results, failures = list[CaseResult](), list[Failure]()
    for case in cases or [case for case in op.spec.cases if case.values == "normal"]:
        for seed in seeds:
            dtype = floating[0]
            problem = _Differentiated(op, case, dtype, where, seed)
            if not problem.grads:  # the outputs are constant, as those of a group without rows
                continue
            wrong = None
            for compared in (problem.linked, problem.called, problem.called_twice):
                try:
                    wrong = compared()
                except Exception as error:  # noqa: BLE001 - functions of the specification may raise anything
                    wrong = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0].rstrip('.')}"
                    wrong += TWICE if compared == problem.called_twice else ""
                if wrong:
                    break
            if wrong:
                failures.append(Failure("value", wrong, case, dtype, seed))
            results.append(CaseResult(case, dtype, "wrong" if wrong else "right", wrong or ""))
    if not results:
        raise ProblemError(f"{op.name}: the reference cannot be differentiated: no output requires a gradient")
    status: Any = "wrong" if failures else "right" if results else "untested"
    linked = op.spec.gradient.op
    notes = () if linked is None else (linked_note(linked),)
    return Verdict(
        op.name, "gradient", place(where), status, tuple(results), tuple(failures), clock() - started, False, notes
    )


def linked_note(backward: Op) -> str:
    """The note of a verdict that the rungs of the linked operation ``backward`` have one of their own."""
    return f"climb {backward.name} too: it verifies the rungs of the backward"


class _Differentiated:
    """One case: the arguments, random gradients of the outputs, and the reference gradients of the arguments."""

    def __init__(self, op: Op, case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> None:
        self.op, self.spec = op, op.spec
        self.args = op.spec.arguments(case, dtype, device, seed)
        exact = map_tensors(_leaf, self.args)
        outputs = (op.spec.reference(*exact),) if len(op.spec.results) == 1 else as_tuple(op.spec.reference(*exact))
        self.outputs = dict(zip(op.spec.parsed.outputs, outputs, strict=True))
        generator = torch.Generator(device).manual_seed(seed + 1)
        self.grads = {
            name: torch.randn(value.shape, dtype=torch.float64, device=device, generator=generator)
            for name, value in self.outputs.items()
            if name in op.spec.returned and isinstance(value, torch.Tensor) and value.requires_grad
        }
        self.expected = self._differentiated(exact, self.outputs) if self.grads else {}
        self.exact = map_tensors(torch.Tensor.detach, exact)

    def _differentiated(self, args: Sequence[Any], outputs: Mapping[str, Any]) -> dict[str, torch.Tensor | None]:
        """The gradient of each floating-point argument, by name; lists as ``name[position]``."""
        leaves = {name: leaf for name, leaf in self._named_tensors(args) if leaf.requires_grad}
        roots = [outputs[name] for name in self.grads]
        grads = [self.grads[name].to(root.dtype) for name, root in zip(self.grads, roots, strict=True)]
        found = torch.autograd.grad(roots, list(leaves.values()), grads, allow_unused=True)
        return dict(zip(leaves, found, strict=True))

    def _named_tensors(self, args: Sequence[Any]) -> list[tuple[str, torch.Tensor]]:
        named = []
        for argument, value in zip(self.spec.parsed.arguments, args, strict=True):
            for number, tensor in enumerate(tensors(value)):
                named.append((f"{argument.name}[{number}]" if argument.is_list else argument.name, tensor))
        return named

    def linked(self) -> str | None:
        """Return a description of the first error of the linked backward operation's reference, or None."""
        assert self.spec.gradient is not None
        backward = self.spec.gradient.op
        if backward is None:
            return None
        values = self.spec.named(self.exact) | {
            name: value.detach() if isinstance(value, torch.Tensor) else value for name, value in self.outputs.items()
        }
        for name, value in self.outputs.items():
            values[GRAD + name] = self.grads.get(name, torch.zeros_like(value) if value is not None else None)
        values |= {NEEDS + argument.name: True for argument in self.spec.parsed.arguments}
        named = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        values = {prefix + name: found(named[name]) for prefix, found in DERIVED.items() for name in named} | values
        made = backward.spec.reference(*(values[argument.name] for argument in backward.spec.parsed.arguments))
        results = (made,) if len(backward.spec.results) == 1 else as_tuple(made)
        found = {name.removeprefix(GRAD): value for name, value in zip(backward.spec.results, results, strict=True)}
        return self._wrong(found, f"{backward.name}'s reference", EXACT)

    def called(self) -> str | None:
        """Return a description of the first error in the gradients that a call records, or None."""
        try:
            self.spec.check(*self.exact)
            args, tolerance = map_tensors(_leaf, self.exact), EXACT
        except (TypeError, ValueError):  # the operation does not take float64
            args = map_tensors(
                lambda tensor: tensor.detach().clone().requires_grad_(tensor.is_floating_point()), self.args
            )
            tolerance = (
                ROUNDINGS * torch.finfo(first_tensor([t for t in tensors(args) if t.is_floating_point()]).dtype).eps
            )
        made = dict(zip(self.spec.returned, as_tuple(self.op.call(*args)), strict=True))
        made = {name: made[name] for name in self.grads}
        unrecorded = [name for name, value in made.items() if not value.requires_grad]
        if unrecorded:
            return f"a call records no gradient for {', '.join(unrecorded)}"
        return self._wrong(self._differentiated(args, made), "a call", tolerance)

    def called_twice(self) -> str | None:
        """Return a description of the first error in the second derivatives that a call records, or None."""
        backward = self.spec.gradient.op if self.spec.gradient is not None else None
        if backward is not None and backward.spec.gradient is None:
            return None
        try:
            self.spec.check(*self.exact)
        except (TypeError, ValueError):
            return None
        exact, args = map_tensors(_leaf, self.exact), map_tensors(_leaf, self.exact)
        reference = self.spec.reference(*exact)
        outputs = (reference,) if len(self.spec.results) == 1 else as_tuple(reference)
        expected = self._twice(exact, dict(zip(self.spec.parsed.outputs, outputs, strict=True)))
        found = self._twice(args, dict(zip(self.spec.returned, as_tuple(self.op.call(*args)), strict=True)))
        return self._wrong(found, "a call, differentiated twice", EXACT, expected)

    def _twice(self, args: Sequence[Any], outputs: Mapping[str, Any]) -> dict[str, torch.Tensor | None]:
        """The gradients of a weighted sum of the gradients."""
        leaves = {name: leaf for name, leaf in self._named_tensors(args) if leaf.requires_grad}
        roots = [outputs[name] for name in self.grads]
        grads = [self.grads[name].clone().requires_grad_() for name in self.grads]
        once = torch.autograd.grad(roots, list(leaves.values()), grads, create_graph=True, allow_unused=True)
        total = sum((one * one.detach().cos()).sum() for one in once if one is not None and one.requires_grad)
        if not isinstance(total, torch.Tensor):
            return {}
        wanted = leaves | {f"the gradient of {name}": grad for name, grad in zip(self.grads, grads, strict=True)}
        found = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
        return dict(zip(wanted, found, strict=True))

    def _wrong(
        self,
        found: Mapping[str, Any],
        source: str,
        tolerance: float,
        expected: Mapping[str, torch.Tensor | None] | None = None,
    ) -> str | None:
        for name, reference in (self.expected if expected is None else expected).items():
            actual: Any = found.get(name)
            if actual is None and reference is None:
                continue
            wanted: Any = (
                torch.zeros(actual.shape, dtype=torch.float64, device=actual.device) if reference is None else reference
            )
            if actual is None:
                if wanted.abs().sum() == 0:
                    continue
                return f"{source} gives no gradient of {name}, autograd of the reference does"
            finite = wanted[wanted.isfinite()]
            scale = max(1.0, float(finite.abs().max())) if finite.numel() else 1.0
            if actual.shape != wanted.shape:
                return (
                    f"{source} gives a gradient of {name} of shape {tuple(actual.shape)}, "
                    f"expected {tuple(wanted.shape)}"
                )
            given = actual.double()
            right = (given - wanted).abs() <= tolerance * scale
            right |= (given == wanted) | (given.isnan() & wanted.isnan())
            if not bool(right.all()):
                at = int((~right).flatten().nonzero()[0])
                index = [int(axis) for axis in torch.unravel_index(torch.tensor(at), wanted.shape)]
                got, right_one = float(actual.flatten()[at]), float(wanted.flatten()[at])
                return f"{source}: the gradient of {name}{index} is {got:.9g}, expected {right_one:.9g}"
        return None


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    """A float64 copy that requires a gradient; tensors that are not floating-point are returned unchanged."""
    return tensor.detach().double().clone().requires_grad_() if tensor.is_floating_point() else tensor
