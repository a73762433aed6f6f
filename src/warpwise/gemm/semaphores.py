"""Semaphores: counters in global memory by which the blocks that share a result find the last one to arrive."""

from __future__ import annotations

import torch

_KEPT: dict[tuple[torch.device, int], torch.Tensor] = {}
_MIN_COUNT = 4096


def semaphores(like: torch.Tensor, count: int) -> torch.Tensor:
    """At least ``count`` int32 zeros on the device of ``like``. A kernel that uses them sets them to zero again.

    They are cached for each stream, whose kernels run one after another. While a CUDA graph is captured they are
    allocated anew, since the graph may be replayed beside kernels of any stream.
    """
    if not like.is_cuda or torch.cuda.is_current_stream_capturing():
        return torch.zeros(count, dtype=torch.int32, device=like.device)
    key = like.device, torch.cuda.current_stream(like.device).cuda_stream
    if key not in _KEPT or len(_KEPT[key]) < count:
        _KEPT[key] = torch.zeros(max(count, _MIN_COUNT), dtype=torch.int32, device=like.device)
    return _KEPT[key]
