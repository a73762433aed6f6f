"""All-reduce of small tensors between the GPUs of a host without NCCL, also in a captured step."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from warpwise import cuda
from warpwise.operation import cdiv

KERNELS = cuda.load(Path(__file__).with_suffix(".cu"))
THREADS = 512  # kThreads
MOST = 8192  # elements of a tensor
PITCH = 2 * MOST  # packets of a process in a half of an inbox
DTYPES = (torch.float32, torch.float64)
MOST_PROCESSES = 8
_open: list[Exchange] = []  # at most one; autograd calls a backward in a thread of its own
_capture = threading.Lock()


class Shared:
    """Symmetric memory: ``parts[rank]`` is ``size`` int64, initially 0, in the memory of process ``rank`` of ``group``.

    Every process can write all parts. Construction is a collective operation.
    """

    def __init__(self, size: int, group: ProcessGroup, device: torch.device) -> None:
        import torch.distributed._symmetric_memory as symmetric

        self._memory = symmetric.empty(size, dtype=torch.int64, device=device)
        self._memory.zero_()
        self._handle = symmetric.rendezvous(self._memory, group.group_name)
        self.parts = [self._handle.get_buffer(peer, (size,), torch.int64) for peer in range(group.size())]
        torch.cuda.synchronize(device)
        dist.barrier(group)  # no process writes to a part before it is zero


class Exchange:
    """Inboxes of the processes of ``group``, for each of two streams, such as those of one captured step.

    Construction is a collective operation, before a capture. The exchanges of a stream are ordered, because the replays
    of a graph do not overlap.
    """

    def __init__(self, group: ProcessGroup, device: torch.device) -> None:
        self.group, self.rank, self.processes = group, group.rank(), group.size()
        self._shared = Shared(2 * 2 * self.processes * PITCH, group, device)
        buffers = [part.view(2, -1) for part in self._shared.parts]
        self.inboxes = [[buffer[stream] for buffer in buffers] for stream in (0, 1)]
        self.exchanges = torch.zeros((2, cdiv(MOST, THREADS)), dtype=torch.int32, device=device)
        self._streams: list[int] = []

    def average(self, tensor: torch.Tensor) -> bool:
        """Replace ``tensor`` by its average and return True, or return False if NCCL must compute it."""
        return self.sum(tensor, self.processes)

    def sum(self, tensor: torch.Tensor, divisor: int = 1) -> bool:
        """Replace ``tensor`` by its sum over all processes, divided by ``divisor``, and return True; or return False if
        NCCL must compute it.
        """
        return tensor.is_contiguous() and self._launch(tensor.view(1, -1), tensor.dtype, divisor)

    def total(self, rows: torch.Tensor) -> bool:
        """Replace the first of ``rows`` (any, n) by their sum over all processes, computed in float64, and return True;
        or return False if NCCL must compute it.
        """
        return rows.is_contiguous() and self._launch(rows, torch.float64)

    def _launch(self, rows: torch.Tensor, dtype: torch.dtype, divisor: int = 1) -> bool:
        stream = torch.cuda.current_stream().cuda_stream
        if stream not in self._streams and len(self._streams) < len(self.inboxes):
            self._streams.append(stream)
        small = 0 < rows.shape[1] <= MOST and rows.dtype in DTYPES
        if not small or stream not in self._streams:
            return False
        at = self._streams.index(stream)
        launch(rows, self.inboxes[at], self.exchanges[at], self.rank, dtype, divisor=divisor)
        return True


def launch(
    values: torch.Tensor,
    inboxes: list[torch.Tensor],
    exchanges: torch.Tensor,
    rank: int,
    dtype: torch.dtype,
    pitch: int = PITCH,
    divisor: int = 1,
) -> None:
    """Launch the kernel on ``values`` (rows, n), with sums of ``dtype``. ``inboxes``: those of all processes, int64."""
    rows, count = values.shape
    kernel = KERNELS[f"sum_over_peers<{cuda.ctype(values.dtype)}, {cuda.ctype(dtype)}>"]
    kernel[cdiv(count, THREADS), THREADS](
        *(values, *inboxes, *[None] * (MOST_PROCESSES - len(inboxes)), exchanges),
        *(rows, count, rank, len(inboxes), pitch, divisor),
    )


@contextmanager
def of_graph(model: torch.nn.Module, device: torch.device) -> Iterator[Exchange | None]:
    """Within the context, averages of a captured graph over the processes of ``model``'s batch do not use NCCL.

    A collective operation. Yields the exchange, which must be kept as long as the graph, or None if the GPUs cannot
    access each other's memory.
    """
    found = (getattr(module, "statistics_over", None) for module in model.modules())
    groups: set[ProcessGroup] = {group for group in found if group is not None}
    group = groups.pop() if len(groups) == 1 else None
    exchange = Exchange(group, device) if group is not None and share_memory(group, device) else None
    with _capture:
        _open.extend([] if exchange is None else [exchange])
        try:
            yield exchange
        finally:
            _open.clear()


def share_memory(group: ProcessGroup, device: torch.device) -> bool:
    """True if all processes of ``group`` are on one host, with GPUs that access each other's memory."""
    if dist.get_backend(group) != "nccl" or not 1 < group.size() <= MOST_PROCESSES:
        return False
    found: list[Any] = [None] * group.size()
    dist.all_gather_object(found, (socket.gethostname(), device.index), group)
    reached = all(
        host == found[0][0] and (other == device.index or torch.cuda.can_device_access_peer(device, other))
        for host, other in found
    )
    dist.all_gather_object(found, reached, group)
    return all(found)


def average(tensor: torch.Tensor, group: ProcessGroup | None) -> bool:
    """Replace ``tensor`` by its average over ``group`` and return True, or return False if NCCL must compute it."""
    return bool(_open) and _open[0].group is (group or dist.group.WORLD) and _open[0].average(tensor)
