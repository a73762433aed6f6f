"""Stores of the value that another program has already stored, as when all programs compute the same table.

Such stores do not race. A program that has made one may also load the element: whichever store was the last, the load
returns the value that this program stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class EqualStores:
    """For each granule of a range of memory: the program that was the last to repeat the store of another one, and the
    stamp of the store that it repeated.
    """

    def __init__(self, granules: int) -> None:
        self._granules = granules
        self._programs: Array | None = None
        self._stamps: Array | None = None

    def add(self, granules: Array, stamps: Array, owners: Array, program: int) -> None:
        """Record that ``program`` repeats the stores with these stamps.

        ``owners`` are the programs of the stamps, 0 where there is no store. Stores of ``program`` itself are ignored.
        """
        foreign = (owners != 0) & (owners != program)
        if not foreign.any():
            return
        if self._programs is None or self._stamps is None:
            self._programs = np.zeros(self._granules, dtype=np.int64)
            self._stamps = np.zeros(self._granules, dtype=np.int64)
        self._programs[granules[foreign]] = program
        self._stamps[granules[foreign]] = stamps[foreign]

    def repeated(self, granules: Array, stamps: Array, program: int) -> Array | bool:
        """Return a mask of the granules in which ``program`` has repeated the store with this stamp."""
        if self._programs is None or self._stamps is None:
            return False
        return np.asarray((self._programs[granules] == program) & (self._stamps[granules] == stamps))
