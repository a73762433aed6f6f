"""The public functions avg_pool2d and avg_pool2d_backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from warpwise.arguments.checks import listed
from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops._windows import pair, pairs
from warpwise.ops.avg_pool2d.backward import rungs as backward
from warpwise.ops.avg_pool2d.forward import rungs as forward
from warpwise.ops.avg_pool2d.spec import BACKWARD, SPEC

SETTINGS = ("kernel_size", "stride", "padding", "count_include_pad")


def _double_backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor]:
    """The pooling is linear, so the adjoint of the adjoint is the pooling."""
    return {"grad_output": _avg_pool2d(grad, *(getattr(saved, name) for name in SETTINGS))}


_DOUBLE_BACKWARD = Gradient(_double_backward, saves=SETTINGS)
AVG_POOL2D_BACKWARD = register(Op(replace(BACKWARD, gradient=_DOUBLE_BACKWARD), backward.RUNGS, backward.default))
AVG_POOL2D = register(Op(replace(SPEC, gradient=Gradient(AVG_POOL2D_BACKWARD)), forward.RUNGS, forward.default))
_avg_pool2d = AVG_POOL2D.call
_avg_pool2d_backward = AVG_POOL2D_BACKWARD.call


def avg_pool2d(
    input: torch.Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    count_include_pad: bool = True,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """The mean of each window of ``input`` (N, C, H, W): (N, C, H', W'), H' = (H + 2 padding - kernel) / stride + 1.

    ``kernel_size``, ``stride`` (by default ``kernel_size``) and ``padding`` are one number or (vertical, horizontal).
    The divisor is the size of the window or, unless ``count_include_pad``, of its part within the image. ``input`` is
    float16, bfloat16, float32 or float64; PyTorch computes float64. Differentiable any number of times. ``rung`` names
    one kernel of the ladder. Raises ``TypeError`` or ``ValueError`` that names the argument.
    """
    # Inline, as in conv2d.
    if type(kernel_size) is not tuple:
        kernel_size = (
            (kernel_size, kernel_size)
            if isinstance(kernel_size, int)
            else pair("avg_pool2d", "kernel_size", kernel_size)
        )
    if stride is None:
        stride = kernel_size
    elif type(stride) is not tuple:
        stride = (stride, stride) if isinstance(stride, int) else pair("avg_pool2d", "stride", stride)
    if type(padding) is not tuple:
        padding = (padding, padding) if isinstance(padding, int) else pair("avg_pool2d", "padding", padding)
    return _avg_pool2d(input, kernel_size, stride, padding, count_include_pad, rung)


def avg_pool2d_backward(
    grad_output: torch.Tensor,
    shape_input: Sequence[int],
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int],
    padding: int | Sequence[int] = 0,
    count_include_pad: bool = True,
    nhwc_input: bool | None = None,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """The gradient of avg_pool2d's input, of ``shape_input`` (N, C, H, W): the adjoint, linear in ``grad_output``.

    ``grad_output`` (N, C, H', W') is float16, bfloat16, float32 or float64; the result has its dtype. The settings are
    those of ``avg_pool2d``. ``nhwc_input``: True for a gradient in NHWC order, False for NCHW order, by default that of
    ``grad_output``. Autograd calls it, with the order of the input; it is public for backwards written by hand.
    Differentiable any number of times. ``rung`` names one kernel of the ladder. Raises ``TypeError`` or ``ValueError``
    that names the argument.
    """
    settings = pairs("avg_pool2d_backward", kernel_size=kernel_size, stride=stride, padding=padding)
    shape = listed("avg_pool2d_backward", "shape_input", shape_input, "integers")
    return _avg_pool2d_backward(grad_output, shape, *settings, count_include_pad, nhwc_input, rung)
