"""What kernels of a captured training step state about a tensor, for other kernels of the step that get the tensor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch


class _Fact(NamedTuple):
    """``tensor`` shares the memory, so that it is neither freed nor changed in place by autograd's sums."""

    tensor: torch.Tensor
    version: int
    value: Any


_open: list[dict[tuple[str, int], _Fact]] = []  # at most one; autograd calls a backward in a thread of its own


@contextmanager
def remembering() -> Iterator[None]:
    """Keep what is told until ``forget``."""
    _open.append({})
    try:
        yield
    finally:
        _open.clear()


def tell(name: str, tensor: torch.Tensor | None, value: Any) -> None:
    """State ``value`` about the contents of a contiguous ``tensor``, which all its views of the same size share."""
    if _open and tensor is not None and tensor.is_contiguous():
        _open[0][name, tensor.data_ptr()] = _Fact(tensor.detach(), tensor._version, value)


def told(name: str, tensor: torch.Tensor | None) -> Any:
    """The value told about ``tensor`` or a view of the same size; None if there is none or the tensor has changed."""
    found = _open[0].get((name, tensor.data_ptr())) if _open and tensor is not None else None
    if found is None or tensor is None or not tensor.is_contiguous():
        return None
    same = tensor.numel() == found.tensor.numel() and tensor.dtype == found.tensor.dtype
    return found.value if same and found.tensor._version == found.version else None


def forget() -> None:
    """Forget all that was told."""
    if _open:
        _open[0].clear()
