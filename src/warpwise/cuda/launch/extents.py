"""The memory of tensors: how much a tensor spans, and which tensors Python holds."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import torch


def extent(tensor: torch.Tensor) -> int:
    """Return the number of elements from a tensor's first to its last in memory, the gaps between rows included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def extent_bytes(tensor: torch.Tensor) -> int:
    """Return the number of bytes from a tensor's first element to the end of its last element."""
    return extent(tensor) * tensor.element_size()


def in_host_memory(tensor: torch.Tensor) -> bool:
    """Return True for a strided CPU tensor with elements."""
    return tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.numel() > 0


def byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the addresses of a tensor's first byte and of the end of its last element."""
    return tensor.data_ptr(), tensor.data_ptr() + extent_bytes(tensor)


def live_tensors() -> Iterator[torch.Tensor]:
    """Yield the strided CPU tensors with elements that Python holds: a pointer in memory may be to any of them."""
    for item in gc.get_objects():
        kind = type(item)  # isinstance would call the properties of proxies
        if kind is not torch.Tensor and kind is not torch.nn.Parameter:
            continue
        try:
            if in_host_memory(item) and item.data_ptr():
                yield item.detach()
        except RuntimeError:  # a tensor without memory, such as the argument of a function under torch.vmap
            continue
