"""The public function matvec."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.matvec._tables import TABLES
from warpwise.ops.matvec.rungs import RUNGS, default
from warpwise.ops.matvec.spec import SPEC
from warpwise.registry import Op, register

MATVEC = register(Op(SPEC, RUNGS, default, TABLES))


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """dA = dy x^T and dx = A^T dy, the latter by the same operation, so that it can be differentiated again."""
    a, x = ctx.saved_tensors
    wants_a, wants_x = ctx.needs_input_grad[:2]
    return torch.outer(grad, x) if wants_a else None, _matvec(a.t(), grad) if wants_x else None


_matvec = public(MATVEC, "(Tensor a, Tensor x) -> Tensor", _backward, _save, autocast="low_precision")


def matvec(a: torch.Tensor, x: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a @ x`` for a matrix a (M, K) and a vector x (K,): (M,), all of one dtype, float16, bfloat16, float32 or float64.

    Products are summed in float32 (float64 for float64, which PyTorch computes); an empty sum, K = 0, is 0. Rows of a may lie
    any distance apart, and a may be a transposed view: neither is copied. Differentiable. Raises ``TypeError`` or
    ``ValueError`` if a is no matrix or x no vector, or if they differ in dtype or device or do not fit. ``rung`` asks for
    one kernel of the ladder by name.
    """
    return _matvec(a, x, rung=rung)
