"""The public function matmul_tf32."""

from __future__ import annotations

from dataclasses import replace

import torch

from warpwise.gemm import gradients
from warpwise.gemm.model import Model
from warpwise.gemm.tables import tables
from warpwise.operation import Gradient, Op, register
from warpwise.ops.matmul_tf32.rungs import FAMILIES, HERE, RUNGS, default
from warpwise.ops.matmul_tf32.spec import SPEC

_GRADIENT = Gradient(gradients.product_backward(lambda a, b: MATMUL_TF32.call(a, b)), saves=("a", "b"))
MODEL = Model("matmul_tf32", HERE / "model", FAMILIES, aligned_c=True)
MATMUL_TF32: Op = register(Op(replace(SPEC, gradient=_GRADIENT), RUNGS, default, tables("matmul_tf32", HERE, MODEL)))
_matmul_tf32 = MATMUL_TF32.call


def matmul_tf32(a: torch.Tensor, b: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a @ b`` for float32 matrices a (M, K) and b (K, N), whose elements may be rounded to TF32: (M, N), float32.

    TF32 has float32's 8 bits of exponent and 10 bits of mantissa; products are exact and summed in float32. The error
    is at most 2^-9 of ``abs(a) @ abs(b)``, plus that of the sum. On CPU tensors and for float64 PyTorch computes
    without rounding. An empty sum, K = 0, is 0. Differentiable; the backward uses TF32 too. Raises ``TypeError`` or
    ``ValueError`` if a or b is not 2-D, if they differ in dtype or device, or if their shapes do not match. ``rung``
    names one rung, ``name@config`` one of its configurations.
    """
    output: torch.Tensor = _matmul_tf32(a, b, rung)
    return output
