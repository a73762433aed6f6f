"""The public function square."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.square.rungs import RUNGS, default
from warpwise.ops.square.spec import SPEC
from warpwise.registry import Op, register

SQUARE = register(Op(SPEC, RUNGS, default))


def _save(ctx: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    """d(x²)/dx = 2x, by PyTorch's operators, so that it can be differentiated again."""
    (input,) = ctx.saved_tensors
    return 2 * input * grad


_square = public(SQUARE, "(Tensor input) -> Tensor", _backward, _save)


def square(input: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``input * input`` for a tensor of any shape, float16, bfloat16, float32 or float64; contiguous.

    Differentiable any number of times. Raises ``TypeError`` for another dtype. ``rung`` asks for one kernel by name.
    """
    return _square(input, rung=rung)
