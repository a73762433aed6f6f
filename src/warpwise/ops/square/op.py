"""The public function square."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.square.rungs import RUNGS, default
from warpwise.ops.square.spec import SPEC

SQUARE = register(Op(SPEC, RUNGS, default))
_square = SQUARE.call


def square(input: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``input * input`` for a tensor of any shape, float16, bfloat16, float32 or float64; contiguous.

    Differentiable any number of times. ``rung`` names one kernel of the ladder. Raises ``TypeError`` for another dtype.
    """
    return _square(input, rung)
