"""Device memory of a run: copies of the arguments' buffers at addresses of their own, guarded by gaps."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

FIRST_ADDRESS = 0x7F00_0000_0000
ALIGNMENT = 512  # of a device allocation
_GAP = 133 * ALIGNMENT  # an odd number of pages, so that buffers of one size do not meet in the same cache sets


@dataclass
class Segment:
    """Bytes of global memory that lie together: at device ``address``, held in ``data``."""

    address: int
    data: np.ndarray


@dataclass(frozen=True)
class Place:
    """Where a buffer argument lies: in ``segment`` from ``offset`` on."""

    segment: Segment | None
    offset: int

    @property
    def address(self) -> int:
        return self.segment.address + self.offset if self.segment is not None else 0


def place(arguments: Sequence[Any]) -> tuple[list[Segment], dict[int, Place]]:
    """Copies of the buffers among ``arguments``, and where each of them lies, by its position.

    Buffers that overlap share a segment. Addresses keep their place in the storage modulo ``ALIGNMENT``, as a device
    copy of the storage has it.
    """
    buffers = [(position, each) for position, each in enumerate(arguments) if not hasattr(each, "data")]
    places = {position: Place(None, 0) for position, each in buffers if not each.nbytes}
    held = sorted(((position, each) for position, each in buffers if each.nbytes), key=lambda pair: pair[1].address)
    segments: list[Segment] = []
    free = FIRST_ADDRESS
    while held:
        start, end = held[0][1].address, held[0][1].address + held[0][1].nbytes
        together = []
        while held and held[0][1].address < end:
            together.append(held.pop(0))
            end = max(end, together[-1][1].address + together[-1][1].nbytes)
        address = free + (start - together[0][1].storage) % ALIGNMENT
        segment = Segment(address, np.empty(end - start, np.uint8))
        ctypes.memmove(segment.data.ctypes.data, start, end - start)
        segments.append(segment)
        free = -(-(address + end - start + _GAP) // ALIGNMENT) * ALIGNMENT
        places.update({position: Place(segment, each.address - start) for position, each in together})
    return segments, places
