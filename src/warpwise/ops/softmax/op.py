"""The public functions softmax and softmax_backward."""

from __future__ import annotations

from dataclasses import replace

import torch

from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.softmax.backward.rungs import RUNGS as BACKWARD_RUNGS
from warpwise.ops.softmax.backward.rungs import default as backward_default
from warpwise.ops.softmax.forward.rungs import RUNGS, default
from warpwise.ops.softmax.spec import BACKWARD, SPEC


def _double_backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """The derivatives of dx = y * (dy - s), s = sum(dy * y), along v.

    With respect to dy: y * (v - sum(v * y)), the same map. With respect to y: v * (dy - s) - dy * sum(v * y).
    """
    y, dim, to_y = saved.output, saved.dim, None
    if saved.wants("output"):
        dot = (saved.grad_output * y).sum(dim, keepdim=True)
        to_y = grad * (saved.grad_output - dot) - saved.grad_output * (grad * y).sum(dim, keepdim=True)
    return {"grad_output": _softmax_backward(grad, y, dim) if saved.wants("grad_output") else None, "output": to_y}


_DOUBLE_BACKWARD = Gradient(_double_backward, saves=("grad_output", "output", "dim"))
SOFTMAX_BACKWARD = register(Op(replace(BACKWARD, gradient=_DOUBLE_BACKWARD), BACKWARD_RUNGS, backward_default))
SOFTMAX = register(Op(replace(SPEC, gradient=Gradient(SOFTMAX_BACKWARD)), RUNGS, default))
_softmax = SOFTMAX.call
_softmax_backward = SOFTMAX_BACKWARD.call


def softmax(input: torch.Tensor, dim: int = -1, *, rung: str | None = None) -> torch.Tensor:
    """e^x / sum(e^x) along ``dim``, for ``input`` of any shape; the result has the same shape and dtype.

    float16, bfloat16 and float32 are summed in float32, float64 (by PyTorch) in float64. As in PyTorch, an element of
    -inf gives 0 and a row of only -inf gives NaN. Differentiable any number of times. ``rung`` names one kernel of the
    ladder. Raises ``TypeError`` for another dtype, and ``ValueError`` if ``dim`` is out of range or ``rung`` does not
    take rows of this length.
    """
    return _softmax(input, dim, rung)


def softmax_backward(
    grad_output: torch.Tensor, output: torch.Tensor, dim: int = -1, *, rung: str | None = None
) -> torch.Tensor:
    """y * (dy - sum(dy * y)) along ``dim``: the gradient of softmax's input, from ``grad_output`` dy and ``output`` y.

    Autograd calls this function; it is public for backwards written by hand. Differentiable any number of times.
    ``rung`` names one kernel of the ladder. Raises ``TypeError`` or ``ValueError`` if the two differ in shape, dtype or
    device, or if ``dim`` is out of range.
    """
    return _softmax_backward(grad_output, output, dim, rung)
