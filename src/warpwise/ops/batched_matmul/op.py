"""The public function batched_matmul."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.batched_matmul._tables import TABLES
from warpwise.ops.batched_matmul.rungs import RUNGS, default
from warpwise.ops.batched_matmul.spec import SPEC
from warpwise.ops.matmul import matmul
from warpwise.registry import Op, register

BATCHED_MATMUL = register(Op(SPEC, RUNGS, default, TABLES))


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """dA = dC B^T and dB = A^T dC, matrix by matrix; a factor that the batch shares takes the sum over it.

    That sum is one product, whose sums run through the batch: of (M, B * N) with (B * N, K), or (K, B * M) with (B * M, N).
    """
    a, b = ctx.saved_tensors
    wants_a, wants_b = ctx.needs_input_grad[:2]
    to_a = to_b = None
    if wants_a and a.dim() == 2:
        to_a = matmul(grad.movedim(0, 1).reshape(a.shape[0], -1), b.mT.reshape(-1, a.shape[1]))
    elif wants_a:
        to_a = _batched_matmul(grad, b.mT)
    if wants_b and b.dim() == 2:
        to_b = matmul(a.reshape(-1, b.shape[0]).t(), grad.reshape(-1, b.shape[1]))
    elif wants_b:
        to_b = _batched_matmul(a.mT, grad)
    return to_a, to_b


_batched_matmul = public(BATCHED_MATMUL, "(Tensor a, Tensor b) -> Tensor", _backward, _save, autocast="low_precision")


def batched_matmul(a: torch.Tensor, b: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a[i] @ b[i]`` for each i, of a (B, M, K) and b (B, K, N): (B, M, N), all of one dtype, float16, bfloat16, float32
    or float64.

    One of the two may have 2 dimensions, and is then the factor of every product. Any strides are taken without copies,
    transposed and broadcast ones too. Products are summed in float32 (float64 for float64, which PyTorch computes), and
    float32 is never rounded to TF32. An empty sum, K = 0, is 0. Differentiable. Raises ``TypeError`` or ``ValueError`` if
    the two are no batches of matrices, differ in dtype or device, or do not fit. ``rung`` asks for one kernel by name.
    """
    return _batched_matmul(a, b, rung=rung)
