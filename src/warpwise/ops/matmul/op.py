"""The public function matmul."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops import _tables
from warpwise.ops._public import public
from warpwise.ops.matmul._shared import HERE
from warpwise.ops.matmul.rungs import RUNGS, default
from warpwise.ops.matmul.spec import SPEC
from warpwise.registry import Choice, Op, register
from warpwise.tuned import Device

MATMUL = register(Op(SPEC, RUNGS, default, _tables.tables("matmul", HERE)))


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """dA = dC B^T and dB = A^T dC, by the same operation, so that it can be differentiated again."""
    a, b = ctx.saved_tensors
    wants_a, wants_b = ctx.needs_input_grad[:2]
    return _matmul(grad, b.t()) if wants_a else None, _matmul(a.t(), grad) if wants_b else None


_matmul = public(
    MATMUL, "(Tensor a, Tensor b) -> Tensor", _backward, _save, autocast="low_precision", eager_records=True
)


def matmul(a: torch.Tensor, b: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a @ b`` for matrices a (M, K) and b (K, N): (M, N), all of one dtype, float16, bfloat16, float32 or float64.

    Products are summed in float32 (float64 for float64, which PyTorch computes), and float32 is never rounded to TF32.
    The product of two int8 matrices is int32 and exact; K is up to 131071 then. An empty sum, K = 0, is 0. Any strides and
    offsets are right, more than 2^31 elements too; where a size alone is above 2^31 - 1024 PyTorch computes.
    Differentiable in floating point. Raises ``TypeError`` or ``ValueError`` if the two are no matrices, differ in dtype
    or device, or do not fit. ``rung`` asks for one kernel of the ladder by name, ``name@config`` for one of its tiles;
    without it ``matmul.chosen(a, b)`` says what runs.
    """
    return _matmul(a, b, rung=rung)


def chosen(a: torch.Tensor, b: torch.Tensor, *, device: Device | str | None = None) -> Choice:
    """What ``matmul(a, b)`` runs, a rung with its tile or PyTorch, with the reason and the times measured nearby.

    ``device`` asks for another GPU than the tensors lie on, by its tables alone: ``"NVIDIA H200"``, or a
    ``warpwise.tuned.Device``, whose target and number of multiprocessors find a table of a GPU alike. Nothing is computed,
    so that a and b may be on the meta device. Raises as ``matmul`` does, and ``LookupError`` if these tables have no point
    nearby.

    >>> print(ww.ops.matmul.chosen(a, b))
    """
    return _tables.chosen(MATMUL, a, b, device=device)


matmul.chosen = chosen  # type: ignore[attr-defined]  # warpwise.ops.matmul is the function, not this folder
