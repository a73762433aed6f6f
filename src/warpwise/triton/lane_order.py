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
        self._readers: Array | None = None
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
        elif self._reads:
            if self._readers is None:
                self._readers = np.zeros(self._granules, dtype=np.int64)
            for read, readers, _ in self._reads:
                if read.shape == granules.shape and np.array_equal(read, granules):
                    continue  # each lane stores the element that it has loaded
                self._readers[read] = readers if read.ndim == readers.ndim else readers[..., None]
            if read_before := self._conflict(self._readers, granules, places, phase, changed):
                found = ("read", *read_before)
        if self._writers is None:
            self._writers = np.zeros(self._granules, dtype=np.int64)
        written = granules[changed]
        self._writers[written] = places[changed] if written.ndim == 1 else places[changed][..., None]
        self._writes.append((written, site()))
        return found

    def _enter(self, phase: int) -> None:
        if phase != self._phase:
            self._phase = phase
            self._reads.clear()
            self._writes.clear()

    def _places(self, index: Array, lanes: Array | None, phase: int) -> Array:
        """The phase, the shape of the block and the place in it of each active lane, in one number."""
        shape = index.shape if lanes is None else lanes.shape
        number = self._shapes.setdefault(shape, len(self._shapes) % (1 << _SHAPE_BITS))
        flat = np.arange(index.size).reshape(index.shape) if lanes is None else np.flatnonzero(lanes)
        return flat | np.int64((phase << _PHASE_SHIFT) | (number << _PLACE_BITS))

    def _conflict(
        self, before: Array | None, granules: Array, places: Array, phase: int, changed: Array | None = None
    ) -> tuple[int, Site] | None:
        if before is None:
            return None
        stamps = before[granules]
        now = places if stamps.ndim == places.ndim else places[..., None]
        other = (stamps >> _PHASE_SHIFT == phase) & (stamps != now)
        other = other.reshape(places.size, -1).any(axis=1)
        if changed is not None:
            other &= changed.ravel()
        if not other.any():
            return None
        which = int(np.argmax(other))
        element = int(granules.reshape(places.size, -1)[which, 0])
        entries = self._writes if before is self._writers else [(read, site) for read, _, site in self._reads]
        return which, next(site for touched, site in reversed(entries) if (touched == element).any())
