"""The public function softmax, and its backward as a function of its own."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.softmax.rungs import BACKWARD_RUNGS, RUNGS, default, default_backward
from warpwise.ops.softmax.spec import BACKWARD, SPEC
from warpwise.registry import Op, register

SOFTMAX = register(Op(SPEC, RUNGS, default))
SOFTMAX_BACKWARD = register(Op(BACKWARD, BACKWARD_RUNGS, default_backward))


def _save_for_double(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    grad_output, y, ctx.dim = inputs
    ctx.save_for_backward(grad_output, y)


def _double_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    """Of dx = y * (dy - s), s = sum(dy * y), along v: the derivative in dy is the same map again, the one in y is
    v * (dy - s) - dy * sum(v * y). Both are made of differentiable functions, so there are third derivatives too."""
    grad_output, y = ctx.saved_tensors
    wants_gradient, wants_y = ctx.needs_input_grad[:2]
    to_gradient = _softmax_backward(grad, y, ctx.dim) if wants_gradient else None
    to_y = None
    if wants_y:
        dot = (grad_output * y).sum(ctx.dim, keepdim=True)
        to_y = grad * (grad_output - dot) - grad_output * (grad * y).sum(ctx.dim, keepdim=True)
    return to_gradient, to_y, None


_softmax_backward = public(
    SOFTMAX_BACKWARD, "(Tensor grad_output, Tensor output, int dim) -> Tensor", _double_backward, _save_for_double,
    autocast="float32",
)  # fmt: skip


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.dim = inputs[1]
    ctx.save_for_backward(output)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
    (output,) = ctx.saved_tensors
    return _softmax_backward(grad, output, ctx.dim), None


_softmax = public(SOFTMAX, "(Tensor input, int dim) -> Tensor", _backward, _save, autocast="float32")


def softmax(input: torch.Tensor, dim: int = -1, *, rung: str | None = None) -> torch.Tensor:
    """e^x / sum(e^x) along ``dim``, for ``input`` of any shape; of the same shape and dtype.

    float16, bfloat16 and float32 are summed in float32, float64 (by PyTorch) in float64. As in PyTorch an element of
    -inf gives 0 and a row of nothing else gives NaN. Differentiable as often as one likes. Raises ``TypeError`` for
    another dtype, ``ValueError`` for a ``dim`` that ``input`` lacks or a row that the rung asked for cannot take.
    ``rung`` asks for one kernel of the ladder by name.
    """
    return _softmax(input, dim, rung=rung)


def softmax_backward(
    grad_output: torch.Tensor, output: torch.Tensor, dim: int = -1, *, rung: str | None = None
) -> torch.Tensor:
    """y * (dy - sum(dy * y)) along ``dim``: the gradient of softmax's input from that of its ``output`` y, both alike.

    What autograd calls by itself; here for who writes a backward by hand. Differentiable. ``rung`` as for softmax.
    Raises ``TypeError`` or ``ValueError`` if the two differ in shape, dtype or device, or lack ``dim``.
    """
    return _softmax_backward(grad_output, output, dim, rung=rung)
