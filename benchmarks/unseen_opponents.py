"""PyTorch's calls beside which unseen_shapes.py measures: those of a user, and of autograd for backwards.

A call gets the arguments of the operation, and after them what ``SAVED`` returns for them: the tensors that PyTorch's
own forward saves for its backward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional

aten: Any = torch.ops.aten
STANDARD = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)  # of a block's convolution


@contextmanager
def precision(tf32: bool) -> Iterator[None]:
    """PyTorch's convolutions of float32 with or without TF32."""
    conv: Any = torch.backends.cudnn.conv
    before = conv.fp32_precision
    conv.fp32_precision = "tf32" if tf32 else "ieee"
    try:
        yield
    finally:
        conv.fp32_precision = before


def conv2d(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int, *rest: Any
) -> Any:
    return torch.conv2d(input, weight, bias, stride, padding, dilation, groups)


def conv2d_backward(grad: Any, input: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    stride, padding, dilation, groups, *needs = rest
    sizes, mask = None if bias is None else [len(weight)], [*needs[:2], needs[2] and bias is not None]
    return aten.convolution_backward(grad, input, weight, sizes, stride, padding, dilation, False, [0, 0], groups, mask)


def batch_norm(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    return functional.batch_norm(input, None, None, weight, bias, True, 0.1, eps)


def _normalised(input: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, ...]:
    return tuple(aten._batch_norm_impl_index(input, weight, bias, None, None, True, 0.1, eps, True))


def _norm_backward(grad: Any, input: Any, weight: Any, eps: float, saved: tuple[Any, ...]) -> Any:
    mean, rstd, reserve, index = saved
    return aten._batch_norm_impl_index_backward(
        index, input, grad, weight, None, None, mean, rstd, True, eps, [True] * 3, reserve
    )


def batch_norm_backward(
    grad: Any, dmean: Any, dvar: Any, input: Any, weight: Any, bias: Any, eps: float, *rest: Any
) -> Any:
    return _norm_backward(grad, input, weight, eps, rest[2:])


def pooled(input: Any, *settings: Any) -> Any:
    return functional.max_pool2d(input, *settings)


def max_pool2d_backward(grad: Any, _: Any, shape: Any, *rest: Any) -> Any:
    *settings, input, indices = rest
    return aten.max_pool2d_with_indices_backward(grad, input, *settings, [1, 1], False, indices)


def avg_pool2d(input: Any, kernel: Any, stride: Any, padding: Any, count_include_pad: bool) -> Any:
    return functional.avg_pool2d(input, kernel, stride, padding, False, count_include_pad)


def avg_pool2d_backward(grad: Any, shape: Any, kernel: Any, stride: Any, padding: Any, counts: bool, input: Any) -> Any:
    return aten.avg_pool2d_backward(grad, input, kernel, stride, padding, False, counts, None)


def conv_block(input: Any, weight: Any, gamma: Any, beta: Any, eps: float, *rest: Any) -> Any:
    normal = batch_norm(torch.conv2d(input, weight, padding=1), gamma, beta, eps)
    return functional.max_pool2d(functional.relu(normal), 2)


def conv_block_backward(grad: Any, *rest: Any) -> Any:
    """What autograd calls for ``conv_block``."""
    input, weight, gamma, _, eps = rest[3:8]
    convolved, mean, rstd, reserve, index, positive, indices = rest[-7:]
    needs = bool(rest[11])
    grad = aten.max_pool2d_with_indices_backward(grad, positive, [2, 2], [2, 2], [0, 0], [1, 1], False, indices)
    grad = aten.threshold_backward(grad, positive, 0)
    grad, dgamma, dbeta = _norm_backward(grad, convolved, gamma, eps, (mean, rstd, reserve, index))
    dx, dw, _ = aten.convolution_backward(grad, input, weight, None, *STANDARD, [needs, True, False])
    return dx, dw, dgamma, dbeta


def _saved_by_norm(grad: Any, dmean: Any, dvar: Any, input: Any, weight: Any, bias: Any, eps: float, *rest: Any) -> Any:
    return _normalised(input, weight, bias, eps)[1:]


def _input_like(grad: Any, shape: Any) -> Any:
    nhwc = grad.is_contiguous(memory_format=torch.channels_last) and not grad.is_contiguous()
    format = torch.channels_last if nhwc else torch.contiguous_format
    return torch.empty(shape, dtype=grad.dtype, device=grad.device, memory_format=format)


def _saved_by_max(grad: Any, indices: Any, shape: Any, *settings: Any) -> tuple[Any, ...]:
    return _input_like(grad, shape), indices.long()


def _saved_by_block(*args: Any) -> tuple[Any, ...]:
    input, weight, gamma, beta, eps = args[4:9]
    convolved = torch.conv2d(input, weight, padding=1)
    normal, *saved = _normalised(convolved, gamma, beta, eps)
    positive = functional.relu(normal)
    return (convolved, *saved, positive, aten.max_pool2d_with_indices(positive, [2, 2])[1])


PYTORCH: dict[str, Callable[..., Any]] = {
    "matmul": torch.matmul, "batched_matmul": torch.bmm, "addmm": lambda c, a, b, beta, alpha: torch.addmm(
        c, a, b, beta=beta, alpha=alpha
    ),
    "conv2d": conv2d, "conv2d_backward": conv2d_backward, "batch_norm": batch_norm,
    "batch_norm_backward": batch_norm_backward, "max_pool2d": pooled, "max_pool2d_backward": max_pool2d_backward,
    "avg_pool2d": avg_pool2d, "avg_pool2d_backward": avg_pool2d_backward, "conv_block": conv_block,
    "conv_block_backward": conv_block_backward,
}  # fmt: skip
SAVED: dict[str, Callable[..., tuple[Any, ...]]] = {
    "batch_norm_backward": _saved_by_norm, "max_pool2d_backward": _saved_by_max,
    "avg_pool2d_backward": lambda grad, shape, *settings: (_input_like(grad, shape),),
    "conv_block_backward": _saved_by_block,
}  # fmt: skip
