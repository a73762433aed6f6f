"""Semaphores: counters in global memory by which the blocks that share a result find the last one to arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from types import SimpleNamespace

import torch

from warpwise.cuda.gpu.driver import current_stream_function, driver

_MIN_COUNT = 8192
_SPARE = 1 << 20  # zeros in one allocation for the captures on a device
_FEWEST = 64  # zeros that a capture takes at least
_kept: dict[tuple[int, int], torch.Tensor] = {}  # by device and stream
_allocating = threading.local()
_spare: dict[int, torch.Tensor] = {}  # by device: zeros that no capture has taken
_taken: dict[tuple[int, int, int], list[torch.Tensor]] = {}  # by device, stream and capture, in order of length
# Zeros of the graph that is being captured; not thread-local, because autograd launches in a thread of its own.
_graph = SimpleNamespace(zeros=[], rows={})
_capture = threading.Lock()
_STREAMS = 8  # capturing streams of a graph whose kernels may use semaphores
_raw_stream = current_stream_function()


def semaphores(like: torch.Tensor, count: int) -> torch.Tensor:
    """At least ``count`` int32 zeros on the device of ``like``. A kernel that uses them sets them to zero again.

    Each stream has its own zeros, which are cached: its kernels run one after another. Each capture of a CUDA graph
    also has its own, since the graph may be replayed concurrently with kernels of any stream. They are those of
    ``of_graph``, or they are allocated outside of the capture, so that the graph has no node that fills them.
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
    """Zeros for a captured launch: one row of ``of_graph`` for each capturing stream, else some of its capture."""
    rows: dict[tuple[int, int], torch.Tensor] = _graph.rows
    key = index, (stream := _raw_stream(index))
    if key not in rows and _graph.zeros and _graph.zeros[-1].get_device() == index:
        rows[key] = _graph.zeros.pop()
    row = rows.get(key)
    if row is not None and len(row) >= count:
        return row
    capture = index, stream, int(driver().cuStreamGetCaptureInfo(stream)[2])  # an id, unique in the process
    taken = _taken.setdefault(capture, [])
    if not taken or len(taken[-1]) < count:
        size = max(_FEWEST, 1 << (count - 1).bit_length())
        if (spare := _spare.get(index)) is None or len(spare) < size:
            spare = _beside_capture(index, max(size, _SPARE))
        taken.append(spare[:size])
        _spare[index] = spare[size:]
    return taken[-1]


def _beside_capture(index: int, count: int) -> torch.Tensor:
    """Zeros that a stream of their own fills while another one of this thread captures."""
    bindings = driver()
    mode = bindings.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    _, mode = bindings.cuThreadExchangeStreamCaptureMode(mode)  # else an allocation ends the capture
    try:
        stream = torch.cuda.Stream(index)
        with torch.cuda.stream(stream):
            zeros = _zeros(count, torch.device("cuda", index))
        stream.synchronize()  # graphs may be replayed on any stream
    finally:
        bindings.cuThreadExchangeStreamCaptureMode(mode)
    return zeros


def is_allocating() -> bool:
    """True in this thread while zeros are allocated here, which a recording does not record."""
    return getattr(_allocating, "now", False)


def includes(tensor: torch.Tensor) -> bool:
    """True if ``tensor`` is one that ``semaphores`` returned and keeps."""
    return any(tensor is kept for kept in (*_kept.values(), *_graph.rows.values(), *chain(*_taken.values())))


def _zeros(count: int, device: torch.device) -> torch.Tensor:
    _allocating.now = True
    try:
        return torch.zeros(count, dtype=torch.int32, device=device)
    finally:
        _allocating.now = False
