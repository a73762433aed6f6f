"""Semaphores: counters in global memory by which the blocks that share a result find the last one to arrive."""

from __future__ import annotations

import threading

import torch

from warpwise.cuda.gpu.driver import current_stream_function

_MIN_COUNT = 4096
_kept: dict[tuple[int, int], torch.Tensor] = {}  # by device and stream
_making = threading.local()
_raw_stream = current_stream_function()


def semaphores(like: torch.Tensor, count: int) -> torch.Tensor:
    """At least ``count`` int32 zeros on the device of ``like``. A kernel that uses them sets them to zero again.

    They are cached for each stream, whose kernels run one after another. While a CUDA graph is captured they are
    allocated anew, since the graph may be replayed beside kernels of any stream.
    """
    return on_device(like.get_device(), count) if like.is_cuda else _zeros(count, like.device)


def on_device(index: int, count: int) -> torch.Tensor:
    """``semaphores`` of a GPU's current stream."""
    if torch.cuda.is_current_stream_capturing():
        return _zeros(count, torch.device("cuda", index))
    key = index, _raw_stream(index)
    kept = _kept.get(key)
    if kept is None or len(kept) < count:
        kept = _kept[key] = _zeros(max(count, _MIN_COUNT), torch.device("cuda", index))
    return kept


def are_being_made() -> bool:
    """True in this thread while zeros are allocated here, which a recording does not record."""
    return getattr(_making, "now", False)


def includes(tensor: torch.Tensor) -> bool:
    """True if ``tensor`` is one that ``semaphores`` returned and keeps."""
    return any(tensor is kept for kept in _kept.values())


def _zeros(count: int, device: torch.device) -> torch.Tensor:
    _making.now = True
    try:
        return torch.zeros(count, dtype=torch.int32, device=device)
    finally:
        _making.now = False
