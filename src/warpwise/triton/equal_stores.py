"""Stores of the value that another program has stored.

The two programs do not race, and a load of the element by either returns this value: each program reads what it has
stored itself, whichever store is later. Programs that all compute the same table are an example.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class EqualStores:
    """For each granule of a range of memory, the program that last repeated a store, and the stamp of that store."""

    def __init__(self, granules: int) -> None:
        self._granules = granules
        self._programs: Array | None = None
        self._stamps: Array | None = None

    def add(self, granules: Array, stamps: Array, owners: Array, program: int) -> None:
        """Note that ``program`` repeats the stores with these stamps, as far as other programs own them."""
        foreign = (owners != 0) & (owners != program)
        if not foreign.any():
            return
        if self._programs is None or self._stamps is None:
            self._programs = np.zeros(self._granules, dtype=np.int64)
            self._stamps = np.zeros(self._granules, dtype=np.int64)
        self._programs[granules[foreign]] = program
        self._stamps[granules[foreign]] = stamps[foreign]

    def repeated(self, granules: Array, stamps: Array, program: int) -> Array | bool:
        """A mask of the granules in which ``program`` has repeated the store with this stamp."""
        if self._programs is None or self._stamps is None:
            return False
        return np.asarray((self._programs[granules] == program) & (self._stamps[granules] == stamps))
