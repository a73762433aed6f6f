"""Windows that slide over images: the sizes of outputs, and checks that pooling operations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from warpwise.arguments.layout import memory_format
from warpwise.operation import FLOATS, check_tensor

MOST_PIXELS = 2**30  # elements of a tensor, because an index in a kernel has 32 bits
UNROLLED = 64  # pixels of a window whose loop is unrolled
Pair = Sequence[int]


def pair(op: str, name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """(vertical, horizontal) of one number or two. Raises ``TypeError`` for anything else."""
    if isinstance(value, int):
        return value, value
    if isinstance(value, (list, tuple)):
        return tuple(value)
    raise TypeError(f"{op}: expected {name} to be an int or two, (vertical, horizontal), got {value!r}")


def pairs(op: str, **settings: int | Sequence[int]) -> list[tuple[int, ...]]:
    """``pair`` of each of the ``settings``, by name."""
    return [pair(op, name, value) for name, value in settings.items()]


def windows(extent: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    """Number of positions of a window along an axis of ``extent`` elements, padded on both sides."""
    return (extent + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def pooled_shape(shape: Sequence[int], kernel_size: Pair, stride: Pair, padding: Pair) -> tuple[int, ...]:
    """The shape of a pooled tensor (N, C, H, W)."""
    sizes = (windows(shape[2 + at], kernel_size[at], stride[at], padding[at]) for at in (0, 1))
    return (*shape[:2], *sizes)


def has_order(format: torch.memory_format, *tensors: torch.Tensor) -> bool:
    """True if a kernel may index all ``tensors`` as (N, H, W, C), or as (N, C, H, W), by ``format``: without gaps.

    Both are true where C = 1 or H = W = 1.
    """
    return all(tensor.is_contiguous(memory_format=format) for tensor in tensors)


def in_order(format: torch.memory_format, tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous view of a tensor that has the order of ``format``: (N, H, W, C) for channels last."""
    return tensor.permute(0, 2, 3, 1) if format == torch.channels_last else tensor


def backward_format(grad_output: torch.Tensor, nhwc_input: bool | None) -> torch.memory_format:
    """The order of the gradient of a pooled image: that of the image, or of ``grad_output`` if that is not known."""
    if nhwc_input is None:
        return memory_format(grad_output)
    return torch.channels_last if nhwc_input else torch.contiguous_format


def check_pool(op: str, input: Any, kernel_size: Pair, stride: Pair, padding: Pair) -> None:
    """Raise unless ``input`` is floating-point (N, C, H, W) and each window contains an element of the image."""
    check_tensor(op, "input", input, FLOATS, dims=(4,))
    check_settings(op, tuple(input.shape), kernel_size, stride, padding)


def check_settings(op: str, shape: Sequence[int], kernel_size: Pair, stride: Pair, padding: Pair) -> None:
    for name, pair, least in (("kernel_size", kernel_size, 1), ("stride", stride, 1), ("padding", padding, 0)):
        if len(pair) != 2 or min(pair) < least:
            raise ValueError(f"{op}: expected {name} to be two integers of at least {least}, got {tuple(pair)}")
    if any(2 * pad > size for pad, size in zip(padding, kernel_size, strict=True)):
        raise ValueError(
            f"{op}: expected a padding of at most half the kernel_size {tuple(kernel_size)}, got {tuple(padding)}"
        )
    if len(shape) != 4 or min(pooled_shape(shape, kernel_size, stride, padding)[2:]) < 1:
        raise ValueError(
            f"{op}: expected images (N, C, H, W) of at least one window of {tuple(kernel_size)}, got {tuple(shape)}"
        )


def limits(images: torch.Tensor, *rest: Any) -> str | None:
    """The limit of kernels that index the elements of a tensor by 32 bits."""
    return index_limits(images.numel())


def index_limits(count: int) -> str | None:
    return f"takes tensors of up to {MOST_PIXELS} elements, not {count}" if count > MOST_PIXELS else None


def unrolled_limits(kernel_size: Pair) -> str | None:
    """The limit of kernels that unroll the loop over a window."""
    if kernel_size[0] * kernel_size[1] > UNROLLED:
        return f"takes windows of up to {UNROLLED} pixels, which are unrolled, not {tuple(kernel_size)}"
    return None


def halved_limits(columns: int, kernel_size: Pair, stride: Pair, padding: Pair) -> str | None:
    """The limit of kernels for 2 x 2 windows side by side in rows of ``columns``."""
    if not (tuple(kernel_size) == tuple(stride) == (2, 2) and tuple(padding) == (0, 0)):
        return "takes windows of 2 x 2 side by side"
    return f"takes rows of an even number of elements, not {columns}" if columns % 2 else None
