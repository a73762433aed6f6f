"""Launches of pooling in vectors of adjacent channels, core/pooling.cuh: images as (outer, h, w, inner)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from warpwise import cuda
from warpwise.arguments.layout import memory_format
from warpwise.operation import FLOATS, cdiv
from warpwise.ops import _windows
from warpwise.ops._windows import Pair, has_order, in_order, index_limits

THREADS = 256
DTYPES = tuple(dtype for dtype in FLOATS if dtype != torch.float64)
SIDES, STRIDES = (2, 3, 5), (1, 2, 3)  # windows whose sizes are compile-time constants


def limits(format: torch.memory_format, *images: torch.Tensor, shape: Sequence[int] = ()) -> str | None:
    """The reason why the kernels do not take these tensors (N, C, H, W), for results in ``format``, or None."""
    if not has_order(format, *images):
        return "takes tensors in the order of the result, NCHW or NHWC, without gaps"
    return index_limits(max(*(tensor.numel() for tensor in images), torch.Size(shape).numel()))


def vector_limits(input: torch.Tensor, *settings: Any) -> str | None:
    """``limits`` of a forward, whose result has the order of ``input``."""
    return limits(memory_format(input), input)


def halved_limits(input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, *rest: Any) -> str | None:
    """The reason why the kernels `halved` of a forward do not take ``input``, or None: they read pairs of elements."""
    if reason := _windows.halved_limits(input.shape[3], kernel_size, stride, padding):
        return reason
    unaligned = input.data_ptr() % (2 * input.element_size())
    return "takes tensors aligned to pairs of elements" if unaligned else _windows.limits(input)


def unrolled_limits(input: torch.Tensor, kernel_size: Pair, *rest: Any) -> str | None:
    """The reason why a forward that unrolls the loop over a window does not take ``input``, or None."""
    return _windows.unrolled_limits(kernel_size) or _windows.limits(input)


def launch(
    module: Any,
    name: str,
    format: torch.memory_format,
    read: Sequence[torch.Tensor],
    written: Sequence[torch.Tensor],
    sizes: Any,
    *more: Any,
) -> None:
    """Launch the kernel ``name`` with a thread for each vector of ``written[0]``; all tensors have order ``format``.

    ``sizes``: the shapes of the image and of the pooled image, (N, C, H, W); kernel_size, stride and padding.
    """
    image, pooled, *settings = sizes
    like = written[0]
    inner = like.shape[1] if format == torch.channels_last else 1
    vector = elements(inner, *read, *written)
    kernel = module[f"{name}<{cuda.ctype(like.dtype)}, {vector}, {constants(*settings[:2])}>"]
    total = like.numel() // vector
    kernel[cdiv(total, THREADS), THREADS](
        *(in_order(format, tensor) for tensor in read), *(cuda.out(in_order(format, tensor)) for tensor in written),
        total, inner, inner // vector, *image[2:], *pooled[2:], *(size for pair in settings for size in pair), *more,
    )  # fmt: skip


def elements(inner: int, *tensors: torch.Tensor) -> int:
    """The largest number of channels that are one access of up to 16 bytes of the narrowest tensor."""
    least = min(tensor.element_size() for tensor in tensors)
    for vector in (8, 4, 2):
        widths = [min(16, vector * tensor.element_size()) for tensor in tensors]
        aligned = all(tensor.data_ptr() % width == 0 for tensor, width in zip(tensors, widths, strict=True))
        if inner % vector == 0 and vector * least <= 16 and aligned:
            return vector
    return 1


def halved_windows(columns: int, *tensors: torch.Tensor) -> int:
    """Adjacent 2 x 2 windows of a thread of the kernels `halved`: a row of ``columns`` and each access are aligned."""
    size = min(tensor.element_size() for tensor in tensors)
    for windows in (4, 2):
        whole = columns % (2 * windows) == 0 and 2 * windows * size <= 16
        if whole and all(tensor.data_ptr() % min(16, 2 * windows * tensor.element_size()) == 0 for tensor in tensors):
            return windows
    return 1


def constants(kernel_size: Pair, stride: Pair) -> str:
    """The template arguments K and S."""
    (kh, kw), (sh, sw) = kernel_size, stride
    return f"{kh}, {sh}" if kh == kw and sh == sw and kh in SIDES and sh in STRIDES else "0, 0"
