"""The memory format of the results of image operations, by PyTorch's rule."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def has_nhwc_strides(tensor: torch.Tensor) -> bool:
    """True if PyTorch's operations return (N, C, H, W) in NHWC order for this one (``suggest_memory_format`` of ATen).

    The strides of C, W, H and N do not decrease, and each is at least the extent of the dimension before. Gaps between
    elements are allowed, so this does not say that a kernel may index ``tensor`` without a copy. A tensor (N, 1, 1, 1)
    whose strides are equal is in NCHW order, and so are those without elements and those that repeat their channels.
    """
    if tensor.dim() != 4 or not tensor.numel():
        return False
    (_, c, h, w), (along_n, along_c, along_h, along_w) = tensor.shape, tensor.stride()
    pixel, row, image = along_c * c, along_w * w, along_h * h
    return 0 < along_c != image and pixel <= along_w and row <= along_h and image <= along_n


def memory_format(*tensors: torch.Tensor) -> torch.memory_format:
    """Channels last if one of ``tensors`` has NHWC strides, as PyTorch's operations return it; else contiguous."""
    return torch.channels_last if any(map(has_nhwc_strides, tensors)) else torch.contiguous_format


def in_format(tensor: torch.Tensor, format: torch.memory_format) -> torch.Tensor:
    """``tensor``, or a copy, with exactly the strides that PyTorch gives a new tensor of ``format``.

    ``Tensor.contiguous`` ignores the strides of empty tensors and of dimensions of size 1, and leaves them as they are.
    """
    made = tensor.contiguous(memory_format=format)
    exact = min(made.shape) > 1 or made.stride() == new_strides(made.shape, format)
    return made if exact else made.clone(memory_format=format)


def new_strides(shape: Sequence[int], format: torch.memory_format) -> tuple[int, ...]:
    """The strides of a new tensor of ``shape``: (N, C, H, W) for channels last."""
    outermost_first = (0, 2, 3, 1) if format == torch.channels_last else range(len(shape))
    strides, step = [1] * len(shape), 1
    for dim in reversed(outermost_first):
        strides[dim] = step
        step *= max(1, shape[dim])
    return tuple(strides)
