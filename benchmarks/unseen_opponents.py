"""PyTorch's calls with which unseen_shapes.py compares: those of a user, and for backwards those of autograd.

A call gets the arguments of the operation, and after them what ``SAVED`` returns for them: the tensors that PyTorch's
own forward saves for its backward. The fused block's backward is timed with its forward, by autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional

from warpwise import ops
from warpwise.arguments.layout import memory_format
from warpwise.ops.grouped_matmul.spec import products

aten: Any = torch.ops.aten


@contextmanager
def precision(convolution: bool, product: bool = False) -> Iterator[None]:
    """PyTorch's convolutions, and its matrix products, of float32 with or without TF32."""
    settings: dict[Any, bool] = {torch.backends.cudnn.conv: convolution, torch.backends.cuda.matmul: product}
    before = {setting: setting.fp32_precision for setting in settings}
    try:
        for setting, tf32 in settings.items():
            setting.fp32_precision = "tf32" if tf32 else "ieee"
        yield
    finally:
        for setting, precision in before.items():
            setting.fp32_precision = precision


def linear(input: Any, weight: Any, bias: Any, activation: str | None, *rest: Any) -> Any:
    """The activation fused with the product where cuBLASLt has it, as linear's own way to PyTorch."""
    if activation is None:
        return functional.linear(input, weight, bias)
    if activation == "gelu":
        return functional.gelu(functional.linear(input, weight, bias))
    return torch._addmm_activation(bias, input, weight.t(), use_gelu=activation == "gelu_tanh")


def grouped_matmul(a: Any, b: Any, offsets: Any) -> Any:
    """torch's grouped product of bfloat16; of float32, which it would round to TF32, a loop of products."""
    if a.dtype == torch.bfloat16:
        return torch._grouped_mm(a, b, offs=offsets)
    return products(a, b, offsets, a.dtype)


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
    *windows, relu = settings
    output = functional.max_pool2d(input, *windows)
    return functional.relu(output) if relu else output


def max_pool2d_backward(grad: Any, _: Any, shape: Any, *rest: Any) -> Any:
    *settings, _, input, indices = rest
    return aten.max_pool2d_with_indices_backward(grad, input, *settings, [1, 1], False, indices)


def avg_pool2d(input: Any, kernel: Any, stride: Any, padding: Any, count_include_pad: bool) -> Any:
    return functional.avg_pool2d(input, kernel, stride, padding, False, count_include_pad)


def avg_pool2d_backward(grad: Any, shape: Any, *rest: Any) -> Any:
    kernel, stride, padding, counts, _, input = rest
    return aten.avg_pool2d_backward(grad, input, kernel, stride, padding, False, counts, None)


def conv_block(input: Any, weight: Any, gamma: Any, beta: Any, eps: float, *rest: Any) -> Any:
    normal = batch_norm(torch.conv2d(input, weight, padding=1), gamma, beta, eps)
    return functional.max_pool2d(functional.relu(normal), 2)


def _saved_by_norm(grad: Any, dmean: Any, dvar: Any, input: Any, weight: Any, bias: Any, eps: float, *rest: Any) -> Any:
    return _normalised(input, weight, bias, eps)[1:]


def _input_like(grad: Any, shape: Any) -> Any:
    return torch.empty(shape, dtype=grad.dtype, device=grad.device, memory_format=memory_format(grad))


def _saved_by_max(grad: Any, indices: Any, shape: Any, *settings: Any) -> tuple[Any, ...]:
    return _input_like(grad, shape), indices.long()


def trained(
    forward: Callable[..., Any], grad: Any, tensors: Iterable[Any], eps: float, needs_input: bool
) -> tuple[Any, ...]:
    """A block's forward of the input, weight, gamma and beta in ``tensors``, and their gradients by autograd."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    leaves[0].requires_grad_(needs_input)
    output = forward(*leaves, eps)
    return torch.autograd.grad(output, [leaf for leaf in leaves if leaf.requires_grad], grad)


def _trained(forward: Callable[..., Any], grad: Any, *rest: Any) -> tuple[Any, ...]:
    """``trained`` of the arguments of conv_block_backward."""
    *tensors, eps = rest[3:8]
    return trained(forward, grad, tensors, eps, bool(rest[11]))


def checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of the operation's arguments: conv_block has tf32, which is False, before the moments."""
    if name != "conv_block":
        return function
    return lambda *args: function(*args[:5], tf32=False, moments=args[5])


def timed(name: str, function: Callable[..., Any], tf32: bool) -> Callable[..., Any]:
    """What is timed in place of ``function``: a block in the drawn precision, and for its backward also the forward.

    In TF32 only the convolution differs, which is checked as conv2d.
    """
    if name == "conv_block":
        return lambda *args: function(*args[:5], tf32=tf32, moments=args[5])
    if name == "conv_block_backward":
        return lambda *args: _trained(lambda *given: ops.conv_block(*given, tf32=tf32)[0], *args)
    return function


PYTORCH: dict[str, Callable[..., Any]] = {
    "matmul": torch.matmul, "matmul_tf32": torch.matmul, "batched_matmul": torch.bmm,
    "addmm": lambda c, a, b, beta, alpha: torch.addmm(c, a, b, beta=beta, alpha=alpha), "linear": linear,
    "scaled_matmul": lambda a, b, *scales: torch._scaled_mm(a, b, *scales, out_dtype=torch.bfloat16),
    "grouped_matmul": grouped_matmul,
    "conv2d": conv2d, "conv2d_backward": conv2d_backward, "batch_norm": batch_norm,
    "batch_norm_backward": batch_norm_backward, "max_pool2d": pooled, "max_pool2d_backward": max_pool2d_backward,
    "avg_pool2d": avg_pool2d, "avg_pool2d_backward": avg_pool2d_backward, "conv_block": conv_block,
    "conv_block_backward": lambda *args: _trained(conv_block, *args),
}  # fmt: skip
SAVED: dict[str, Callable[..., tuple[Any, ...]]] = {
    "batch_norm_backward": _saved_by_norm, "max_pool2d_backward": _saved_by_max,
    "avg_pool2d_backward": lambda grad, shape, *settings: (_input_like(grad, shape),),
}  # fmt: skip
