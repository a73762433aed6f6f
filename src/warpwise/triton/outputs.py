"""Shadows laid over a launch's tensors before it runs, and outputs that no program wrote reported after it."""

from __future__ import annotations

import numpy as np
import torch

from warpwise.cuda.errors import Finding, UnwrittenOutput
from warpwise.triton.findings import Recorder
from warpwise.triton.memory import Memory, Slot
from warpwise.triton.races import Clock, Shadow


def add_shadows(memory: Memory, clock: Clock, checks: str) -> None:
    """One shadow for each stretch of memory that arguments share, and poison in the outputs."""
    if checks == "none":
        return
    slots = sorted((slot for slot in memory.slots.values() if slot.nbytes), key=lambda slot: slot.tensor.data_ptr())
    group: list[Slot] = []
    end = 0
    for slot in [*slots, None]:
        start = slot.tensor.data_ptr() if slot is not None else 0
        if group and (slot is None or start >= end):
            _share_shadow(group, end, clock, checks)
            group = []
        if slot is not None:
            end = max(end, start + slot.nbytes) if group else start + slot.nbytes
            group.append(slot)


def _share_shadow(group: list[Slot], end: int, clock: Clock, checks: str) -> None:
    start = group[0].tensor.data_ptr()
    granule = min(slot.tensor.element_size() for slot in group)
    while any((slot.tensor.data_ptr() - start) % granule for slot in group):
        granule //= 2
    outputs = [slot for slot in group if slot.output]
    if checks == "bounds" and not outputs:
        return
    shadow = Shadow(end - start, granule.bit_length() - 1, clock, checks == "all")
    for slot in group:
        slot.shadow, slot.origin = shadow, slot.tensor.data_ptr() - start
    for slot in outputs:
        shadow.track_writes()
        poison(slot.tensor)


def poison(tensor: torch.Tensor) -> None:
    """Set every byte of the elements to 0xff: NaN for floating-point types, -1 for integers."""
    same_size = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    tensor.detach().view(same_size).fill_(-1)


def report_unwritten(memory: Memory, recorder: Recorder) -> None:
    """Elements of outputs that no program wrote."""
    for slot in memory.slots.values():
        if not slot.output or slot.shadow is None or slot.shadow.written is None:
            continue
        width = slot.tensor.element_size() >> slot.shadow.shift
        first = slot.origin >> slot.shadow.shift
        flat = slot.shadow.written[first : first + slot.nbytes // slot.tensor.element_size() * width]
        elements = torch.from_numpy(flat.reshape(-1, width).all(axis=1))
        missing = ~torch.as_strided(elements, slot.tensor.shape, slot.tensor.stride())
        count = int(missing.sum())
        if count:
            position = tuple(int(value) for value in missing.nonzero()[0])
            where = ", ".join(str(value) for value in position)
            message = f"{count} of {missing.numel()} elements of the output {slot.name} were written by no program, the first is [{where}]"
            index = int(np.ravel_multi_index(position, missing.shape)) if position else 0
            recorder.put(
                Finding(
                    UnwrittenOutput,
                    recorder.kernel,
                    message,
                    None,
                    None,
                    slot.name,
                    "global",
                    index,
                    missing.numel(),
                    count,
                )
            )
