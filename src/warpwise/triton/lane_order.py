"""Accesses of one element by several lanes of a program that no barrier orders.

The lanes of a program run in several warps, which Triton does not synchronise between a store and a load of global
memory. Two accesses of an element are ordered if they are at the same place of blocks of the same shape, or if a
``tl.debug_barrier``, an atomic, or an operation that may exchange values between warps is between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpwise.triton.findings import Site

Array = np.ndarray[Any, np.dtype[Any]]

_PLACE_BITS = 21  # a block has at most 2**20 elements
_SHAPE_BITS = 10
_PHASE_SHIFT = _PLACE_BITS + _SHAPE_BITS


class LaneOrder:
    """The lanes that accessed each granule of a range of memory since the last barrier of the current program."""

    def __init__(self, granules: int) -> None:
        self._granules = granules
        self._writers: Array | None = None
        # The latest reader of each granule, and the reader before it that was another lane.
        self._readers: Array | None = None
        self._other_readers: Array | None = None
        self._stamped = 0  # how many of the reads below are in these two
        self._exact: Array | None = None
        self._phase = -1  # of the entries below
        self._reads: list[tuple[Array, Array, Site]] = []
        self._writes: list[tuple[Array, Site]] = []
        self._shapes: dict[tuple[int, ...], int] = {}

    def read(
        self, granules: Array, index: Array, lanes: Array | None, phase: int, site: Callable[[], Site]
    ) -> tuple[int, Site] | None:
        """Record a load; return the place in ``index`` of an element that another lane has stored, and that line."""
        self._enter(phase)
        places = self._places(index, lanes, phase)
        self._reads.append((granules, places, site()))
        return self._conflict(self._writers, granules, places, phase) if self._writes else None

    def write(
        self, granules: Array, index: Array, lanes: Array | None, changed: Array, phase: int, site: Callable[[], Site]
    ) -> tuple[str, int, Site] | None:
        """Record a store that changes some elements; return the kind of an earlier access, the place and its line."""
        self._enter(phase)
        places = self._places(index, lanes, phase)
        found = None
        if self._writes and (write := self._conflict(self._writers, granules, places, phase, changed)):
            found = ("write", *write)
        elif (
            self._reads
            and self._may_conflict(granules, places, phase, changed)
            and (read_before := self._read_conflict(granules, places, phase, changed))
        ):
            found = ("read", *read_before)
        if self._writers is None:
            self._writers = np.zeros(self._granules, dtype=np.int64)
        written = granules[changed]
        self._writers[written] = places[changed] if written.ndim == 1 else places[changed][..., None]
        self._writes.append((written, site()))
        return found

    def _may_conflict(self, granules: Array, places: Array, phase: int, changed: Array) -> bool:
        """Return False if no lane but the storing one has read an element. The time does not depend on the reads."""
        if self._readers is None or self._other_readers is None:
            self._readers = np.zeros(self._granules, dtype=np.int64)
            self._other_readers = np.zeros(self._granules, dtype=np.int64)
        for read, readers, _ in self._reads[self._stamped :]:
            now = np.broadcast_to(readers if read.ndim == readers.ndim else readers[..., None], read.shape)
            before = self._readers[read]
            other = (before >> _PHASE_SHIFT == phase) & (before != now)
            if other.any():
                self._other_readers[read[other]] = before[other]
            self._readers[read] = now
        self._stamped = len(self._reads)
        return any(
            self._others(before, granules, places, phase, changed).any()
            for before in (self._readers, self._other_readers)
        )

    def _read_conflict(self, granules: Array, places: Array, phase: int, changed: Array) -> tuple[int, Site] | None:
        """The latest reader of each element, without the loads of just these elements: each lane stores what it has
        loaded, also if several lanes have loaded the same element."""
        if self._exact is None:
            self._exact = np.zeros(self._granules, dtype=np.int64)
        self._exact[granules] = 0
        for read, readers, _ in self._reads:
            if read.shape != granules.shape or not np.array_equal(read, granules):
                self._exact[read] = readers if read.ndim == readers.ndim else readers[..., None]
        return self._conflict(self._exact, granules, places, phase, changed)

    def _enter(self, phase: int) -> None:
        if phase != self._phase:
            self._phase = phase
            self._reads.clear()
            self._writes.clear()
            self._stamped = 0

    def _places(self, index: Array, lanes: Array | None, phase: int) -> Array:
        """The phase, the shape of the block and the place in it of each active lane, in one number."""
        shape = index.shape if lanes is None else lanes.shape
        number = self._shapes.setdefault(shape, len(self._shapes) % (1 << _SHAPE_BITS))
        flat = np.arange(index.size).reshape(index.shape) if lanes is None else np.flatnonzero(lanes)
        return flat | np.int64((phase << _PHASE_SHIFT) | (number << _PLACE_BITS))

    @staticmethod
    def _others(before: Array, granules: Array, places: Array, phase: int, changed: Array | None) -> Array:
        """A mask of the elements that another lane has accessed before; only those of ``changed``, if given."""
        stamps = before[granules]
        now = places if stamps.ndim == places.ndim else places[..., None]
        other = ((stamps >> _PHASE_SHIFT == phase) & (stamps != now)).reshape(places.size, -1).any(axis=1)
        return other if changed is None else other & changed.ravel()

    def _conflict(
        self, before: Array | None, granules: Array, places: Array, phase: int, changed: Array | None = None
    ) -> tuple[int, Site] | None:
        if before is None:
            return None
        other = self._others(before, granules, places, phase, changed)
        if not other.any():
            return None
        which = int(np.argmax(other))
        element = int(granules.reshape(places.size, -1)[which, 0])
        entries = self._writes if before is self._writers else [(read, site) for read, _, site in self._reads]
        return which, next(site for touched, site in reversed(entries) if (touched == element).any())
