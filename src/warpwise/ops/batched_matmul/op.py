"""The public function batched_matmul."""

from __future__ import annotations

from dataclasses import replace

import torch

from warpwise.gemm import gradients
from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.batched_matmul._tables import TABLES
from warpwise.ops.batched_matmul.rungs import RUNGS, default
from warpwise.ops.batched_matmul.spec import SPEC
from warpwise.ops.matmul import matmul


def _backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """dA = dC B^T and dB = A^T dC, matrix by matrix; the gradient of a shared operand is the sum over the batch.

    That sum is one product with the batch in K: (M, B * N) by (B * N, K), or (K, B * M) by (B * M, N).
    """
    a, b, to_a, to_b = saved.a, saved.b, None, None
    if saved.wants("a") and a.dim() == 2:
        to_a = matmul(grad.movedim(0, 1).reshape(a.shape[0], -1), b.mT.reshape(-1, a.shape[1]))
    elif saved.wants("a"):
        to_a = _batched_matmul(grad, b.mT)
    if saved.wants("b") and b.dim() == 2:
        to_b = matmul(a.reshape(-1, b.shape[0]).t(), grad.reshape(-1, b.shape[1]))
    elif saved.wants("b"):
        to_b = _batched_matmul(a.mT, grad)
    return {"a": to_a, "b": to_b}


_GRADIENT = Gradient(
    _backward, saves=("a", "b"), eager_records=lambda a, b: gradients.eager_records(BATCHED_MATMUL, a, b)
)
BATCHED_MATMUL: Op = register(Op(replace(SPEC, gradient=_GRADIENT), RUNGS, default, TABLES))
_batched_matmul = BATCHED_MATMUL.call


def batched_matmul(a: torch.Tensor, b: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a[i] @ b[i]`` for each i, for a (B, M, K) and b (B, K, N): (B, M, N), all of one dtype, float16, bfloat16,
    float32 or float64.

    a or b may have 2 dimensions and is then an operand of every product. Tensors with any strides, also transposed and
    broadcast tensors, are read without copies. Products are summed in float32 (in float64 for float64, which PyTorch
    computes); float32 is never rounded to TF32. An empty sum, K = 0, is 0. Differentiable. Raises ``TypeError`` or
    ``ValueError`` if neither a nor b is 3-D, if they differ in dtype or device, or if their shapes do not match.
    ``rung`` names one rung, ``name@config`` one of its configurations.
    """
    output: torch.Tensor = _batched_matmul(a, b, rung)
    return output
