"""The public function matmul_tf32."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops import _tables
from warpwise.ops._public import public
from warpwise.ops.matmul_tf32.rungs import HERE, RUNGS, default
from warpwise.ops.matmul_tf32.spec import SPEC
from warpwise.registry import Op, register

MATMUL_TF32 = register(Op(SPEC, RUNGS, default, _tables.tables("matmul_tf32", HERE)))


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """dA = dC B^T and dB = A^T dC, by the same operation, so that it can be differentiated again."""
    a, b = ctx.saved_tensors
    wants_a, wants_b = ctx.needs_input_grad[:2]
    return _matmul(grad, b.t()) if wants_a else None, _matmul(a.t(), grad) if wants_b else None


_matmul = public(MATMUL_TF32, "(Tensor a, Tensor b) -> Tensor", _backward, _save)


def matmul_tf32(a: torch.Tensor, b: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a @ b`` for float32 matrices a (M, K) and b (K, N), whose elements may be rounded to TF32: (M, N), float32.

    TF32 keeps the 8 bits of float32's exponent and 10 bits of its mantissa; products are exact and summed in float32: an
    error is at most 2^-9 of ``abs(a) @ abs(b)``, beside that of the sum itself. On CPU tensors, and for float64, PyTorch
    computes and nothing is rounded. An empty sum, K = 0, is 0. Differentiable, by products of the same kind. Raises
    ``TypeError`` or ``ValueError`` if the two are no matrices, differ in dtype or device, or do not fit. ``rung`` asks for
    one kernel of the ladder by name, ``name@config`` for one of its tiles.
    """
    return _matmul(a, b, rung=rung)
