"""The public functions conv2d and conv2d_backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from warpwise.device.precision import tf32_is_allowed
from warpwise.operation import Gradient, Op, register
from warpwise.ops._windows import pair, pairs
from warpwise.ops.conv2d.backward import rungs as backward
from warpwise.ops.conv2d.forward import rungs as forward
from warpwise.ops.conv2d.spec import BACKWARD, SPEC, Three

CONV2D_BACKWARD = register(Op(BACKWARD, backward.RUNGS, backward.default))


def _eager_records(input: torch.Tensor, *rest: Any) -> bool | Callable[[], bool]:
    """PyTorch's autograd computes the backward in the precision that ``torch.backends.cudnn`` has then."""
    tf32 = rest[-1]
    return not (input.is_cuda and input.dtype == torch.float32) or (lambda: tf32_is_allowed("conv") == tf32)


_GRADIENT = Gradient(CONV2D_BACKWARD, eager_records=_eager_records)
CONV2D = register(Op(replace(SPEC, gradient=_GRADIENT), forward.RUNGS, forward.default))
_conv2d = CONV2D.call
_conv2d_backward = CONV2D_BACKWARD.call


def conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    tf32: bool = False,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """The cross-correlation of ``input`` (N, C, H, W) with ``weight`` (K, C / groups, R, S), plus ``bias`` (K,).

    The result is (N, K, P, Q), P = (H + 2 padding - dilation (R - 1) - 1) / stride + 1. ``stride``, ``padding`` (zeros)
    and ``dilation`` are one number or (vertical, horizontal). ``weight`` has at least one element. All tensors have one
    dtype, float16, bfloat16, float32 or float64. The kernels take float32 and sum in float32; PyTorch computes the
    other dtypes. ``tf32`` allows PyTorch and k06_triton to round float32 operands to TF32, independently of PyTorch's
    own setting. Without it, and in the other kernels, no operand is rounded. If the input or the weight is in NHWC
    order, so is the result. Differentiable any number of times. ``rung`` names one kernel of the ladder. Raises
    ``TypeError`` or ``ValueError`` that names the argument.
    """
    # Inline, because calls of pair would take 0.5 µs of host time.
    if type(stride) is not tuple:
        stride = (stride, stride) if isinstance(stride, int) else pair("conv2d", "stride", stride)
    if type(padding) is not tuple:
        padding = (padding, padding) if isinstance(padding, int) else pair("conv2d", "padding", padding)
    if type(dilation) is not tuple:
        dilation = (dilation, dilation) if isinstance(dilation, int) else pair("conv2d", "dilation", dilation)
    return _conv2d(input, weight, bias, stride, padding, dilation, groups, tf32, rung)


def conv2d_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    needs_input: bool = True,
    needs_weight: bool = True,
    needs_bias: bool = True,
    tf32: bool = False,
    *,
    rung: str | None = None,
) -> Three:
    """The gradients of conv2d's ``input``, ``weight`` and ``bias``, or None, for ``grad_output`` (N, K, P, Q).

    ``input``, ``weight``, ``bias`` and the settings are the arguments of ``conv2d``; ``grad_output`` has their dtype. A
    gradient is None unless its ``needs_`` argument is True. Autograd calls it; it is public for backwards written by
    hand. Differentiable any number of times. ``rung`` names one kernel of the ladder. Raises ``TypeError`` or
    ``ValueError`` that names the argument.
    """
    settings = pairs("conv2d_backward", stride=stride, padding=padding, dilation=dilation)
    result: Three = _conv2d_backward(
        grad_output, input, weight, bias, *settings, groups, needs_input, needs_weight, needs_bias, tf32, rung=rung
    )
    return result
