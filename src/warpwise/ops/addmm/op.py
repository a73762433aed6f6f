"""The public function addmm."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.addmm.rungs import RUNGS, default
from warpwise.ops.addmm.spec import SPEC
from warpwise.ops.addmm.tables import TABLES
from warpwise.ops.matmul.op import matmul
from warpwise.registry import Op, register

ADDMM = register(Op(SPEC, RUNGS, default, TABLES))

Gradient = torch.Tensor | None


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    input, a, b, beta, alpha = inputs
    ctx.rest = input.shape, beta, alpha
    ctx.save_for_backward(a, b)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[Gradient, Gradient, Gradient, None, None]:
    """dC = beta dD summed over what was broadcast, dA = alpha dD B^T, dB = alpha A^T dD."""
    a, b = ctx.saved_tensors
    added, beta, alpha = ctx.rest
    wants_input, wants_a, wants_b = ctx.needs_input_grad[:3]
    to_input = (beta * grad).sum_to_size(added) if wants_input else None
    to_a = alpha * matmul(grad, b.t()) if wants_a else None
    to_b = alpha * matmul(a.t(), grad) if wants_b else None
    return to_input, to_a, to_b, None, None


_addmm = public(
    ADDMM, "(Tensor input, Tensor a, Tensor b, float beta, float alpha) -> Tensor", _backward, _save,
    autocast="low_precision", eager_records=True,
)  # fmt: skip


def addmm(
    input: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    beta: float = 1.0,
    alpha: float = 1.0,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """``beta * input + alpha * (a @ b)`` as torch.addmm: a (M, K), b (K, N) and the result (M, N), in any layout.

    ``input`` is (M, N) or broadcasts to it: (N,), (1, N), (M, 1), (). All are of one dtype, float16, bfloat16, float32 or
    float64; sums and what is added to them are float32 and rounded once (float64 for float64, which PyTorch computes), and
    float32 is never rounded to TF32. Where ``beta`` is 0 ``input`` is not read, NaN in it or not; where ``alpha``
    is 0 a rung of ours multiplies all the same, and NaN stays NaN. An empty sum, K = 0, is 0.

    On a GPU torch.addmm computes where it was measured to be faster, in float32 always: ``warpwise tune addmm`` measures
    for a GPU at hand.

    Differentiable. Raises ``TypeError`` or ``ValueError`` naming the argument that does not fit. ``rung`` asks for one
    kernel of the ladder by name.
    """
    if not (type(beta) is type(alpha) is float):
        beta, alpha = _number("beta", beta), _number("alpha", alpha)
    return _addmm(input, a, b, beta, alpha, rung=rung)


def _number(name: str, value: float) -> float:
    if isinstance(value, (Real, torch.SymInt, torch.SymFloat)):
        return float(value)
    raise TypeError(f"addmm: expected {name} to be a real number, got {type(value).__name__}")
