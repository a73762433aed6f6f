"""The public function reduce_sum."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.reduce_sum.rungs import RUNGS, default
from warpwise.ops.reduce_sum.spec import SPEC
from warpwise.registry import Op, register

REDUCE_SUM = register(Op(SPEC, RUNGS, default))


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    tensor, ctx.dim = inputs
    ctx.shape = tensor.shape


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
    kept = grad if ctx.dim is None or not ctx.shape else grad.unsqueeze(ctx.dim)
    return kept.expand(ctx.shape), None


_reduce_sum = public(REDUCE_SUM, "(Tensor input, int? dim) -> Tensor", _backward, _save, autocast="float32")


def reduce_sum(input: torch.Tensor, dim: int | None = None, *, rung: str | None = None) -> torch.Tensor:
    """The sum of all elements of ``input`` (no dimensions left), or along ``dim`` (that one is gone); of its dtype.

    float16, bfloat16 and float32 are accumulated in float32, float64 (by PyTorch) in float64; an empty sum is 0.
    Differentiable. Raises ``TypeError`` for another dtype and ``ValueError`` for a ``dim`` that ``input`` lacks.
    ``rung`` asks for one kernel of the ladder by name; those with atomics round differently from run to run.
    """
    return _reduce_sum(input, dim, rung=rung)
