"""The public function matmul_tf32."""

from __future__ import annotations

from dataclasses import replace

import torch

from warpwise.gemm.tables import tables
from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.matmul_tf32.model import MODEL
from warpwise.ops.matmul_tf32.rungs import HERE, RUNGS, default
from warpwise.ops.matmul_tf32.spec import SPEC


def _backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """dA = dC B^T and dB = A^T dC, by the same operation, which is differentiable again."""
    return {
        "a": _matmul_tf32(grad, saved.b.t()) if saved.wants("a") else None,
        "b": _matmul_tf32(saved.a.t(), grad) if saved.wants("b") else None,
    }


_GRADIENT = Gradient(_backward, saves=("a", "b"))
MATMUL_TF32 = register(Op(replace(SPEC, gradient=_GRADIENT), RUNGS, default, tables("matmul_tf32", HERE, MODEL)))
_matmul_tf32 = MATMUL_TF32.call


def matmul_tf32(a: torch.Tensor, b: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a @ b`` for float32 matrices a (M, K) and b (K, N), whose elements may be rounded to TF32: (M, N), float32.

    TF32 has float32's 8 bits of exponent and 10 bits of mantissa; products are exact and summed in float32. The error
    is at most 2^-9 of ``abs(a) @ abs(b)``, beside that of the sum. On CPU tensors and for float64 PyTorch computes
    without rounding. An empty sum, K = 0, is 0. Differentiable, by products of the same kind. Raises ``TypeError`` or
    ``ValueError`` if a or b is not 2-D, if they differ in dtype or device, or if their shapes do not match. ``rung``
    names one rung, ``name@config`` one of its configurations.
    """
    output: torch.Tensor = _matmul_tf32(a, b, rung=rung)
    return output
