"""The public function reduce_sum."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.reduce_sum.rungs import RUNGS, default
from warpwise.ops.reduce_sum.spec import SPEC

REDUCE_SUM = register(Op(SPEC, RUNGS, default))
_reduce_sum = REDUCE_SUM.call


def reduce_sum(input: torch.Tensor, dim: int | None = None, *, rung: str | None = None) -> torch.Tensor:
    """The sum of all elements of ``input`` (0-D), or along ``dim``, which is removed; in the dtype of ``input``.

    float16, bfloat16 and float32 are accumulated in float32, float64 (by PyTorch) in float64; an empty sum is 0.
    Differentiable. ``rung`` names one kernel of the ladder; the result of a kernel with atomics may differ between runs
    by rounding. Raises ``TypeError`` for another dtype and ``ValueError`` if ``dim`` is out of range.
    """
    return _reduce_sum(input, dim, rung)
