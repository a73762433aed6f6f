"""Sums and rows of the halo among the GPUs of a host, through memory that each of them can write, without NCCL."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from warpwise import cuda
from warpwise.nn.peers import Exchange, Shared, share_memory
from warpwise.operation import cdiv

KERNELS = cuda.load(Path(__file__).with_suffix(".cu"))
_THREADS, _MOST_PROCESSES = 512, 8  # kThreads, kMostProcesses
_MOST_BLOCKS = 64  # fewer than SMs, so that all are resident
_WIDTH = 128  # floats of the widest row
_MOST_PACKETS = 1 << 23  # packets in half of an inbox: 64 MiB


class Sent(ctypes.Structure):
    """Rows up to ``ends[p + 1]`` from ``ends[p]`` on go to process p, and to rows ``places[p]`` on of its inbox."""

    _fields_ = (("ends", ctypes.c_int * (_MOST_PROCESSES + 1)), ("places", ctypes.c_int * _MOST_PROCESSES))


class Peers:
    """What the processes of ``group`` send each other in a fit. ``sends`` are the rows that this process sends, for
    each colour and process, and ``fetches`` those that it fetches. Every process creates it together with the others.
    """

    def __init__(
        self, group: Any, device: torch.device, sends: Sequence[Sequence[int]], fetches: Sequence[Sequence[int]]
    ) -> None:
        self.exchange = Exchange(group, device)
        self.rank, size = group.rank(), group.size()
        of_all: list[Any] = [None] * size
        dist.all_gather_object(of_all, [list(row) for row in fetches], group)
        self.fetched = [sum(row) for row in fetches]
        self.sent = [
            sent_of(row, [sum(of_all[peer][colour][: self.rank]) for peer in range(size)])
            for colour, row in enumerate(sends)
        ]
        rows = max((sum(row) for fetched in of_all for row in fetched), default=0)
        self.width = min(_WIDTH, _MOST_PACKETS // max(rows, 1))
        self.pitch, self.number = rows * self.width + _MOST_PROCESSES, 0
        self._shared = Shared(2 * self.pitch, group, device)

    def swap(self, values: torch.Tensor, colour: int, sent: torch.Tensor, first: int) -> bool:
        """Exchange the rows of ``values`` (points, ...) of one colour and return True, or return False if NCCL must.

        ``sent`` are the rows that are sent, sorted by receiver; those that are fetched start at row ``first``.
        """
        if values.dtype != torch.float32 or not values.is_contiguous() or values.shape[1:].numel() > self.width:
            return False
        self.number += 1
        launch(values, sent, self._shared.parts, self.sent[colour], first, self.fetched[colour], self.rank, self.pitch,
               self.number)  # fmt: skip
        return True


def sent_of(counts: Sequence[int], places: Sequence[int]) -> Sent:
    """``counts`` rows for each process, which start at row ``places`` of its inbox."""
    ends = list(accumulate(counts, initial=0))
    return Sent(tuple(ends), tuple(places))


def launch(
    values: torch.Tensor,
    sent: torch.Tensor,
    inboxes: Sequence[torch.Tensor],
    to: Sent,
    first: int,
    fetched: int,
    rank: int,
    pitch: int,
    number: int,
) -> None:
    """The kernel; ``inboxes`` are those of all processes, int64."""
    width = values.shape[1:].numel()
    blocks = max(1, min(_MOST_BLOCKS, cdiv(max(len(sent), fetched) * width, _THREADS)))
    KERNELS["swap_rows"][blocks, _THREADS](
        *(values, sent, *inboxes, *[None] * (_MOST_PROCESSES - len(inboxes)), to, first, fetched, width, rank),
        *(len(inboxes), pitch, number),
    )


def peers_of(
    group: Any, device: torch.device, sends: Sequence[Sequence[int]], fetches: Sequence[Sequence[int]]
) -> Peers | None:
    """``Peers``, or None if the processes have no common memory."""
    return Peers(group, device, sends, fetches) if share_memory(group, device) else None
