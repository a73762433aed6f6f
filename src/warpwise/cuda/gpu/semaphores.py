"""Semaphores: counters in global memory by which the blocks that share a result find the last one to arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import torch

from warpwise.cuda.gpu.driver import current_stream_function

_MIN_COUNT = 4096
_kept: dict[tuple[int, int], torch.Tensor] = {}  # by device and stream
_making = threading.local()
_graph = SimpleNamespace(zeros=[], rows={})  # of the graph that is captured; autograd launches in a thread of its own
_capture = threading.Lock()
_STREAMS = 8  # capturing streams of a graph whose kernels may use semaphores
_raw_stream = current_stream_function()


def semaphores(like: torch.Tensor, count: int) -> torch.Tensor:
    """At least ``count`` int32 zeros on the device of ``like``. A kernel that uses them sets them to zero again.

    They are cached for each stream, whose kernels run one after another. While a CUDA graph is captured they are
    allocated anew, since the graph may be replayed beside kernels of any stream: by ``of_graph`` before the capture, or
    by a fill that is a node of the graph.
    """
    return on_device(like.get_device(), count) if like.is_cuda else _zeros(count, like.device)


def on_device(index: int, count: int) -> torch.Tensor:
    """``semaphores`` of a GPU's current stream."""
    if torch.cuda.is_current_stream_capturing():
        return _captured(index, count)
    key = index, _raw_stream(index)
    kept = _kept.get(key)
    if kept is None or len(kept) < count:
        kept = _kept[key] = _zeros(max(count, _MIN_COUNT), torch.device("cuda", index))
    return kept


@contextmanager
def of_graph(device: torch.device) -> Iterator[torch.Tensor]:
    """Let the launches of a graph that is captured here use zeros allocated here, before the capture.

    The graph then needs no fills. The yielded tensor must be kept as long as the graph, whose replays must not overlap.
    """
    zeros = torch.zeros((_STREAMS, _MIN_COUNT), dtype=torch.int32, device=device)
    with _capture:
        _graph.zeros, _graph.rows = list(zeros), {}
        try:
            yield zeros
        finally:
            _graph.zeros, _graph.rows = [], {}


def _captured(index: int, count: int) -> torch.Tensor:
    """Zeros for a captured launch: one row of ``of_graph`` for each capturing stream, else new ones."""
    rows: dict[tuple[int, int], torch.Tensor] = _graph.rows
    key = index, _raw_stream(index)
    if key not in rows and _graph.zeros and _graph.zeros[-1].get_device() == index:
        rows[key] = _graph.zeros.pop()
    row = rows.get(key)
    return row if row is not None and len(row) >= count else _zeros(count, torch.device("cuda", index))


def are_being_made() -> bool:
    """True in this thread while zeros are allocated here, which a recording does not record."""
    return getattr(_making, "now", False)


def includes(tensor: torch.Tensor) -> bool:
    """True if ``tensor`` is one that ``semaphores`` returned and keeps."""
    return any(tensor is kept for kept in (*_kept.values(), *_graph.rows.values()))


def _zeros(count: int, device: torch.device) -> torch.Tensor:
    _making.now = True
    try:
        return torch.zeros(count, dtype=torch.int32, device=device)
    finally:
        _making.now = False
