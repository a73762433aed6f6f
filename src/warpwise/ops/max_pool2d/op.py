"""The public functions max_pool2d and max_pool2d_backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from warpwise.arguments.checks import listed
from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops._windows import pair, pairs
from warpwise.ops.max_pool2d.backward import rungs as backward
from warpwise.ops.max_pool2d.forward import rungs as forward
from warpwise.ops.max_pool2d.spec import BACKWARD, SPEC, gathered


def _double_backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor]:
    """The backward is linear in grad_output: its adjoint gathers at the indices."""
    return {"grad_output": gathered(grad, saved.indices)}


_DOUBLE_BACKWARD = Gradient(_double_backward, saves=("indices",))
MAX_POOL2D_BACKWARD = register(Op(replace(BACKWARD, gradient=_DOUBLE_BACKWARD), backward.RUNGS, backward.default))
MAX_POOL2D = register(Op(replace(SPEC, gradient=Gradient(MAX_POOL2D_BACKWARD)), forward.RUNGS, forward.default))
_max_pool2d = MAX_POOL2D.call
_max_pool2d_backward = MAX_POOL2D_BACKWARD.call


def max_pool2d(
    input: torch.Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    relu: bool = False,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """The maximum of each window of ``input`` (N, C, H, W): (N, C, H', W'), H' = (H + 2 padding - kernel) / stride + 1.

    ``kernel_size``, ``stride`` (by default ``kernel_size``) and ``padding`` are one number or (vertical, horizontal).
    The gradient flows to the first of equal maxima; NaN is larger than any number. With ``relu`` a maximum that is not
    positive is 0, and no gradient flows through it. ``input`` is float16, bfloat16, float32 or float64; PyTorch
    computes float64. Differentiable any number of times. ``rung`` names one kernel of the ladder. Raises ``TypeError``
    or ``ValueError`` that names the argument.
    """
    # Inline, as in conv2d.
    if type(kernel_size) is not tuple:
        kernel_size = (
            (kernel_size, kernel_size)
            if isinstance(kernel_size, int)
            else pair("max_pool2d", "kernel_size", kernel_size)
        )
    if stride is None:
        stride = kernel_size
    elif type(stride) is not tuple:
        stride = (stride, stride) if isinstance(stride, int) else pair("max_pool2d", "stride", stride)
    if type(padding) is not tuple:
        padding = (padding, padding) if isinstance(padding, int) else pair("max_pool2d", "padding", padding)
    return _max_pool2d(input, kernel_size, stride, padding, relu, rung)


def max_pool2d_backward(
    grad_output: torch.Tensor,
    indices: torch.Tensor,
    shape_input: Sequence[int],
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int],
    padding: int | Sequence[int] = 0,
    nhwc_input: bool | None = None,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """The gradient of max_pool2d's input, of ``shape_input`` (N, C, H, W): ``grad_output`` at the maxima, 0 elsewhere.

    ``grad_output`` (N, C, H', W') is float16, bfloat16, float32 or float64; the result has its dtype. ``indices``:
    int32, of the same shape: row W + column of each window's maximum, or -1 where no gradient flows; another index
    raises ``IndexError`` on a CPU and is undefined on a GPU. The settings are those of ``max_pool2d``. ``nhwc_input``:
    True for a gradient in NHWC order, False for NCHW order, by default that of ``grad_output``. Autograd calls it, with
    the order of the input; it is public for backwards written by hand. Differentiable any number of times. ``rung``
    names one kernel of the ladder. Raises ``TypeError`` or ``ValueError`` that names the argument.
    """
    settings = pairs("max_pool2d_backward", kernel_size=kernel_size, stride=stride, padding=padding)
    shape = listed("max_pool2d_backward", "shape_input", shape_input, "integers")
    return _max_pool2d_backward(grad_output, indices, shape, *settings, nhwc_input, rung)
