"""Device memory of a run: copies of the buffer arguments, with unmapped gaps between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpwise.machine import sparse

FIRST_ADDRESS = 0x7F00_0000_0000
ALIGNMENT = 512  # of a device allocation
_GAP = 133 * ALIGNMENT  # odd, so that buffers of equal size do not map to the same cache sets
_WIDE_GAP = 1 << 36  # an index of 4-byte elements that wraps around at 2^32 does not reach another buffer


@dataclass
class Segment:
    """A contiguous range of global memory: device ``address`` and contents."""

    address: int
    data: np.ndarray


@dataclass(frozen=True)
class BufferLocation:
    """Location of a buffer argument: ``offset`` bytes into ``segment``; None for a null pointer."""

    segment: Segment | None
    offset: int

    @property
    def address(self) -> int:
        return self.segment.address + self.offset if self.segment is not None else 0


def copy_buffers(arguments: Sequence[Any]) -> tuple[list[Segment], dict[int, BufferLocation]]:
    """Copy the buffers among ``arguments`` to segments; return the segments and each buffer's location by position.

    Overlapping buffers share a segment. Addresses modulo ``ALIGNMENT`` are those of a device copy of the storage.
    """
    buffers = [(position, each) for position, each in enumerate(arguments) if not hasattr(each, "data")]
    locations = {position: BufferLocation(None, 0) for position, each in buffers if not each.nbytes}
    unplaced = sorted(((position, each) for position, each in buffers if each.nbytes), key=lambda pair: pair[1].address)
    segments: list[Segment] = []
    free = FIRST_ADDRESS
    while unplaced:
        start, end = unplaced[0][1].address, unplaced[0][1].address + unplaced[0][1].nbytes
        together = []
        while unplaced and unplaced[0][1].address < end:
            together.append(unplaced.pop(0))
            end = max(end, together[-1][1].address + together[-1][1].nbytes)
        address = free + (start - together[0][1].storage) % ALIGNMENT
        segment = Segment(address, sparse.copied(start, end - start))
        segments.append(segment)
        gap = _GAP + (_WIDE_GAP if end - start >= sparse.FROM_BYTES else 0)
        free = -(-(address + end - start + gap) // ALIGNMENT) * ALIGNMENT
        locations.update({position: BufferLocation(segment, each.address - start) for position, each in together})
    return segments, locations
