"""Add shadow memory to a launch's tensors before it runs; report output elements that no program wrote after it."""

from __future__ import annotations

import numpy as np
import torch

from warpwise.cuda.errors import Finding, UnwrittenOutput
from warpwise.triton.findings import Recorder
from warpwise.triton.memory import Allocation, Memory
from warpwise.triton.races import AccessTracker, Shadow


def add_shadows(memory: Memory, tracker: AccessTracker, checks: str) -> None:
    """Add one shadow per contiguous range of memory (overlapping arguments share it), and poison the outputs."""
    if checks == "none":
        return
    allocations = sorted(
        (allocation for allocation in memory.allocations.values() if allocation.nbytes),
        key=lambda allocation: allocation.tensor.data_ptr(),
    )
    group: list[Allocation] = []
    end = 0
    for allocation in [*allocations, None]:
        start = allocation.tensor.data_ptr() if allocation is not None else 0
        if group and (allocation is None or start >= end):
            _share_shadow(group, end, tracker, checks)
            group = []
        if allocation is not None:
            end = max(end, start + allocation.nbytes) if group else start + allocation.nbytes
            group.append(allocation)


def _share_shadow(group: list[Allocation], end: int, tracker: AccessTracker, checks: str) -> None:
    start = group[0].tensor.data_ptr()
    granule = min(allocation.tensor.element_size() for allocation in group)
    while any((allocation.tensor.data_ptr() - start) % granule for allocation in group):
        granule //= 2
    outputs = [allocation for allocation in group if allocation.output]
    if checks == "bounds" and not outputs:
        return
    shadow = Shadow(end - start, granule.bit_length() - 1, tracker, checks == "all")
    for allocation in group:
        allocation.shadow, allocation.origin = shadow, allocation.tensor.data_ptr() - start
    for allocation in outputs:
        shadow.track_writes()
        poison(allocation.tensor)


def poison(tensor: torch.Tensor) -> None:
    """Set every byte of the tensor's elements to 0xff: NaN for floating-point types, -1 for integers."""
    same_size = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    tensor.detach().view(same_size).fill_(-1)


def report_unwritten(memory: Memory, recorder: Recorder) -> None:
    """Report elements of outputs that no program wrote."""
    for allocation in memory.allocations.values():
        if not allocation.output or allocation.shadow is None or allocation.shadow.written is None:
            continue
        width = allocation.tensor.element_size() >> allocation.shadow.shift
        first = allocation.origin >> allocation.shadow.shift
        flat = allocation.shadow.written[first : first + allocation.nbytes // allocation.tensor.element_size() * width]
        elements = torch.from_numpy(flat.reshape(-1, width).all(axis=1))
        missing = ~torch.as_strided(elements, allocation.tensor.shape, allocation.tensor.stride())
        count = int(missing.sum())
        if count:
            position = tuple(int(value) for value in missing.nonzero()[0])
            where = ", ".join(str(value) for value in position)
            message = (
                f"{count:,} of the {missing.numel():,} elements of '{allocation.name}' were never written; "
                f"the first is {allocation.name}[{where}]. "
                "If this is intended, pass it as an ordinary argument, without out"
            )
            index = int(np.ravel_multi_index(position, missing.shape)) if position else 0
            recorder.record(
                Finding(
                    UnwrittenOutput,
                    recorder.kernel,
                    message,
                    None,
                    None,
                    allocation.name,
                    "global",
                    index,
                    missing.numel(),
                    count,
                )
            )
