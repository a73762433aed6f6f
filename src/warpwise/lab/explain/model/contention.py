"""The number of addresses and L2 slices that atomics on global memory update, estimated from a run's sampled
requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from warpwise.lab.explain.model.metrics import SECTOR
from warpwise.machine.counts import Buffer, Counts, Sample

SLICE = 512  # contiguous bytes in one slice of L2, measured by atomics on a small buffer


def targets(counts: Counts, chosen: np.ndarray) -> int:
    """An upper bound of the number of addresses that these instructions update, or 0 if no request was sampled.

    If all lanes access one address in each sampled request, the bound is the number of distinct addresses in the
    samples, otherwise the number of elements of the updated buffer.
    """
    found = 0
    for i in np.flatnonzero(chosen):
        kept = counts.samples.get(int(i), ())
        addresses = [_addresses(each) for each in kept]
        if kept and all(len(each) == 1 for each in addresses) and any(each.lanes & (each.lanes - 1) for each in kept):
            found += len(set().union(*addresses))
        elif kept:
            found += max(_elements(counts.buffers, each) for each in kept)
    return found


def slices(counts: Counts, instruction: int) -> int:
    """The number of L2 slices that hold the addresses one instruction updates; at least 1."""
    chosen = np.zeros(len(counts.table), dtype=bool)
    chosen[instruction] = True
    width = max((each.bytes for each in counts.samples.get(instruction, ())), default=4)
    return max(1, -(-targets(counts, chosen) * width // SLICE))


def operations(counts: Counts, instruction: int) -> float:
    """The number of operations that L2 serialises for a request of one instruction, from its first sample.

    One operation updates all words of a 32-byte sector, each by one lane.
    """
    kept = counts.samples.get(instruction, ())
    if not kept:
        return 1.0
    sample = kept[0]
    lanes = Counter(address for lane, address in enumerate(sample.addresses) if sample.lanes >> lane & 1)
    of_sector: dict[int, int] = {}
    for address, count in lanes.items():
        of_sector[address // SECTOR] = max(of_sector.get(address // SECTOR, 0), count)
    return float(sum(of_sector.values()))


def touched(counts: Counts, chosen: np.ndarray) -> int:
    """Sectors of the buffers that the sampled requests of these instructions access; 0 without samples."""
    found = set()
    for i in np.flatnonzero(chosen):
        for sample in counts.samples.get(int(i), ()):
            first = min(_addresses(sample), default=-1)
            found |= {buffer for buffer in counts.buffers if buffer.address <= first < buffer.address + buffer.nbytes}
    return sum(-(-buffer.nbytes // SECTOR) for buffer in found)


def _addresses(sample: Sample) -> set[int]:
    return {address for lane, address in enumerate(sample.addresses) if sample.lanes >> lane & 1}


def _elements(buffers: Iterable[Buffer], sample: Sample) -> int:
    first = min(_addresses(sample), default=0)
    for buffer in buffers:
        if buffer.address <= first < buffer.address + buffer.nbytes:
            return max(1, buffer.nbytes // max(1, sample.bytes))
    return 1
