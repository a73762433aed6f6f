"""Semaphores: counters in global memory by which the blocks that share a result find the last one to arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import torch

from warpwise.cuda.gpu.driver import current_stream_function, driver

_MIN_COUNT = 8192
_SPARE, _FEWEST = 1 << 20, 64  # zeros for all captures of a process on a device, and the fewest for one capture
_kept: dict[tuple[int, int], torch.Tensor] = {}  # by device and stream
_allocating = threading.local()
_spare: dict[int, torch.Tensor] = {}  # by device: those that no capture has
_taken: dict[tuple[int, int, int], torch.Tensor] = {}  # by device, stream and capture
# Those of the graph that is being captured; not thread-local, because autograd launches in a thread of its own.
_graph = SimpleNamespace(zeros=[], rows={})
_capture = threading.Lock()
_STREAMS = 8  # capturing streams of a graph whose kernels may use semaphores
_raw_stream = current_stream_function()


def semaphores(like: torch.Tensor, count: int) -> torch.Tensor:
    """At least ``count`` int32 zeros on the device of ``like``. A kernel that uses them sets them to zero again.

    They are cached for each stream, whose kernels run one after another. Each capture of a CUDA graph has its own,
    since the graph may be replayed beside kernels of any stream: those of ``of_graph``, or some that an earlier call
    allocated, or, when all ``_SPARE`` are given away, new ones, whose fill is a node of the graph.
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
        if index not in _spare:
            _spare[index] = _zeros(_SPARE, torch.device("cuda", index))
            torch.cuda.current_stream(index).synchronize()  # graphs may be replayed on any stream
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
    """Zeros for a captured launch: one row of ``of_graph`` for each capturing stream, else spare or new ones."""
    rows: dict[tuple[int, int], torch.Tensor] = _graph.rows
    key = index, (stream := _raw_stream(index))
    if key not in rows and _graph.zeros and _graph.zeros[-1].get_device() == index:
        rows[key] = _graph.zeros.pop()
    row = rows.get(key)
    if row is None:
        capture = index, stream, int(driver().cuStreamGetCaptureInfo(stream)[2])  # an id, unique in the process
        row, spare = _taken.get(capture), _spare.get(index)
        size = max(_FEWEST, 1 << (count - 1).bit_length())
        if (row is None or len(row) < count) and spare is not None and size <= len(spare):
            row = _taken[capture] = spare[:size]
            _spare[index] = spare[size:]
    return row if row is not None and len(row) >= count else _zeros(count, torch.device("cuda", index))


def is_allocating() -> bool:
    """True in this thread while zeros are allocated here, which a recording does not record."""
    return getattr(_allocating, "now", False)


def includes(tensor: torch.Tensor) -> bool:
    """True if ``tensor`` is one that ``semaphores`` returned and keeps."""
    return any(tensor is kept for kept in (*_kept.values(), *_graph.rows.values(), *_taken.values()))


def _zeros(count: int, device: torch.device) -> torch.Tensor:
    _allocating.now = True
    try:
        return torch.zeros(count, dtype=torch.int32, device=device)
    finally:
        _allocating.now = False
