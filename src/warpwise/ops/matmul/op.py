"""The public function matmul."""

from __future__ import annotations

from dataclasses import replace

import torch

from warpwise.gemm import gradients
from warpwise.gemm.model import FALLBACK, Model
from warpwise.gemm.tables import tables
from warpwise.operation import Gradient, Op, register
from warpwise.ops.matmul.rungs import FAMILIES, HERE, RUNGS, copied_by_torch, default
from warpwise.ops.matmul.spec import SPEC

_GRADIENT = Gradient(
    gradients.product_backward(lambda a, b: MATMUL.call(a, b)),
    saves=("a", "b"),
    eager_records=lambda a, b: gradients.eager_records(MATMUL, a, b),
)
MODEL = Model("matmul", HERE / "model", FAMILIES, FALLBACK, copied=copied_by_torch)
MATMUL: Op = register(Op(replace(SPEC, gradient=_GRADIENT), RUNGS, default, tables("matmul", HERE, MODEL)))
_matmul = MATMUL.call


def matmul(a: torch.Tensor, b: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a @ b`` for matrices a (M, K) and b (K, N): (M, N), all of one dtype, float16, bfloat16, float32 or float64.

    Products are summed in float32 (in float64 for float64, which PyTorch computes); float32 is never rounded to TF32.
    The product of two int8 matrices is int32 and exact, with K up to 131071. An empty sum, K = 0, is 0. Any strides,
    offsets and more than 2^31 elements are supported; if one size exceeds 2^31 - 1024, PyTorch computes.

    Differentiable in floating point. If PyTorch computes forward and backward, its autograd records the product; a
    float32 backward then uses TF32 if ``torch.backends.cuda.matmul`` is set to TF32 after the forward. Raises
    ``TypeError`` or ``ValueError`` if a or b is not 2-D, if they differ in dtype or device, or if their shapes do not
    match. ``rung`` names one rung, ``name@config`` one of its configurations. Without ``rung``,
    ``warpwise.operation.chosen(MATMUL, a, b)`` returns the choice.
    """
    output: torch.Tensor = _matmul(a, b, rung)
    return output
