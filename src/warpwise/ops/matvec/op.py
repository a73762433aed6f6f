"""The public function matvec."""

from __future__ import annotations

from dataclasses import replace

import torch

from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.matvec._tables import TABLES
from warpwise.ops.matvec.rungs import RUNGS, default
from warpwise.ops.matvec.spec import SPEC


def _backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """dA = dy x^T and dx = A^T dy, the latter by matvec, so that it is differentiable again."""
    return {
        "a": torch.outer(grad, saved.x) if saved.wants("a") else None,
        "x": _matvec(saved.a.t(), grad) if saved.wants("x") else None,
    }


MATVEC = register(Op(replace(SPEC, gradient=Gradient(_backward, saves=("a", "x"))), RUNGS, default, TABLES))
_matvec = MATVEC.call


def matvec(a: torch.Tensor, x: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a @ x`` for a matrix a (M, K) and a vector x (K,): (M,), all of one dtype, float16, bfloat16, float32 or
    float64.

    Products are summed in float32 (in float64 for float64, which PyTorch computes). An empty sum, K = 0, is 0. A
    row-major or column-major a of any row stride is read without a copy. Differentiable. Raises ``TypeError`` or
    ``ValueError`` if a is not 2-D or x not 1-D, if they differ in dtype or device, or if their shapes do not match.
    ``rung`` names one rung, ``name@config`` one of its configurations.
    """
    output: torch.Tensor = _matvec(a, x, rung)
    return output
