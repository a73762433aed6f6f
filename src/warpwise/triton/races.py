"""Who touched each element: the shadow of a tensor in which conflicts between the programs of a grid are found.

Programs of a grid run in any order and at the same time. Two of them that touch one element, one of them changing its
value by a plain store, race, unless atomic operations may have ordered them: both programs executed one (with release
or acquire meaning), the second before its access. So a reported race is one; a race next to such atomics may be missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpwise.cuda.errors import DataRace, UninitializedRead
from warpwise.triton.findings import Recorder, Site

if TYPE_CHECKING:
    from warpwise.triton.memory import Slot

Array = np.ndarray[Any, np.dtype[Any]]
_PROGRAM = np.int64((1 << 32) - 1)


class Clock:
    """The program that runs, the programs that executed an ordering atomic, and the lines that touched memory."""

    def __init__(self, grid: tuple[int, int, int], recorder: Recorder) -> None:
        self.grid = grid
        self.recorder = recorder
        self.program = 0
        self.ordered = np.zeros(64, dtype=bool)
        self.sites: dict[Site, int] = {}
        self.places: list[Site] = []

    def stamp(self) -> np.int64:
        """Program + 1 in the low 32 bits, the running line in the high ones."""
        site = self.recorder.sources.site()
        number = self.sites.get(site)
        if number is None:
            number = self.sites[site] = len(self.places)
            self.places.append(site)
        return np.int64((number << 32) | (self.program + 1))

    def program_of(self, stamp: int) -> tuple[int, int, int]:
        """The grid coordinates in a stamp; x varies fastest."""
        number = (int(stamp) & int(_PROGRAM)) - 1
        return number % self.grid[0], number // self.grid[0] % self.grid[1], number // (self.grid[0] * self.grid[1])

    def site_of(self, stamp: int) -> Site:
        return self.places[int(stamp) >> 32]

    def order(self) -> None:
        """The running program executed an atomic operation with release and acquire meaning."""
        number = self.program + 1
        if number >= self.ordered.size:
            self.ordered = np.concatenate([self.ordered, np.zeros(number + 1, dtype=bool)])
        self.ordered[number] = True

    def unordered(self, stamps: Array) -> Array:
        """Which stamps are another program's, with nothing that may order it before the one that runs."""
        owners = stamps & _PROGRAM
        foreign = (owners != 0) & (owners != self.program + 1)
        if self.program + 1 < self.ordered.size and self.ordered[self.program + 1]:
            foreign &= ~self.ordered[owners]
        return foreign


class Shadow:
    """The shadow of one stretch of memory, which arguments that overlap share, in granules of ``1 << shift`` bytes."""

    def __init__(self, nbytes: int, shift: int, clock: Clock, track_races: bool) -> None:
        self.shift = shift
        self.clock = clock
        self.track_races = track_races
        granules = (nbytes >> shift) + 1
        self.written: Array | None = None
        self._granules = granules
        self._stamps: dict[str, Array] = {}

    def _stamp_array(self, kind: str) -> Array:
        found = self._stamps.get(kind)
        if found is None:
            found = self._stamps[kind] = np.zeros(self._granules, dtype=np.int64)
        return found

    def track_writes(self) -> None:
        """Remember which granules were written at all, for outputs."""
        if self.written is None:
            self.written = np.zeros(self._granules, dtype=bool)

    def granules(self, slot: Slot, index: Array, itemsize: int) -> Array | None:
        """The granules under elements; None if an element is smaller than a granule. Wider elements add a last axis."""
        width = itemsize >> self.shift
        if width == 0:
            return None
        first = index * width + (slot.origin >> self.shift) if width > 1 else index + (slot.origin >> self.shift)
        return first if width == 1 else first[..., None] + np.arange(width)

    def read(self, slot: Slot, index: Array, lanes: Array | None, itemsize: int, atomic: bool) -> None:
        """A load: finds elements of an output that nothing wrote, and elements that another program writes."""
        cells = self.granules(slot, index, itemsize)
        if cells is None:
            return
        if self.written is not None and slot.output:
            fresh = ~self.written[cells]
            if fresh.any():
                self._report_uninitialized(slot, index, lanes, np.asarray(fresh.reshape(index.size, -1).any(axis=1)))
        if not self.track_races:
            return
        self._conflicts(slot, index, lanes, cells, "read", ("write",) if atomic else ("write", "atomic"))
        self._mark("atomic read" if atomic else "read", cells)

    def write(self, slot: Slot, index: Array, lanes: Array | None, values: Array, view: Array) -> None:
        """A plain store, before it happens: only elements whose value it changes count."""
        cells = self.granules(slot, index, view.itemsize)
        if cells is None:
            return
        if self.written is not None:
            self.written[cells] = True
        if not self.track_races:
            return
        bits = np.dtype(f"u{view.itemsize}")
        changed = view[index].view(bits) != np.ascontiguousarray(values).view(bits)
        if not changed.any():
            return
        if not changed.all():
            positions = np.argwhere(changed if lanes is None else lanes)
            positions = positions if lanes is None else positions[changed]
            self._store(slot, index[changed], cells[changed], positions)
        else:
            self._store(slot, index, cells, None if lanes is None else np.argwhere(lanes))

    def _store(self, slot: Slot, index: Array, cells: Array, positions: Array | None) -> None:
        self._conflicts(slot, index, None, cells, "write", ("write", "atomic", "read", "atomic read"), positions)
        self._stamp_array("write")[cells] = self.clock.stamp()

    def clash(self, slot: Slot, index: Array, lanes: Array | None, values: Array, view: Array) -> None:
        """After a store: lanes of it that wrote different values to one element, of which any may win."""
        if not self.track_races:
            return
        bits = np.dtype(f"u{view.itemsize}")
        lost = (view[index].view(bits) != np.ascontiguousarray(values).view(bits)).ravel()
        if not lost.any():
            return
        which = int(np.argmax(lost))
        position = np.argwhere(np.ones(index.shape, dtype=bool) if lanes is None else lanes)[which]
        element = int(index.ravel()[which])
        self.clock.recorder.add(
            DataRace,
            f"lanes of one store write different values to {slot.name}[{element}]",
            "write",
            position,
            variable=slot.name,
            index=element,
            size=view.size,
            count=int(lost.sum()),
            hint="Which lane wins is not defined; reduce the values first or use an atomic operation.",
        )

    def atomic(self, slot: Slot, index: Array, lanes: Array | None, itemsize: int) -> None:
        """An atomic read-modify-write, before it happens."""
        cells = self.granules(slot, index, itemsize)
        if cells is None:
            return
        if self.written is not None:
            if slot.output and not self.written[cells].all():
                fresh = np.asarray((~self.written[cells]).reshape(index.size, -1).any(axis=1))
                self._report_uninitialized(slot, index, lanes, fresh)
            self.written[cells] = True
        if self.track_races:
            self._conflicts(slot, index, lanes, cells, "atomic", ("write", "read"))
            self._mark("atomic", cells)

    def _mark(self, kind: str, cells: Array) -> None:
        """Keep the first program that did ``kind`` to each granule."""
        stamps = self._stamp_array(kind)
        fresh = stamps[cells] == 0
        if fresh.any():
            stamps[cells[fresh]] = self.clock.stamp()

    def _conflicts(
        self,
        slot: Slot,
        index: Array,
        lanes: Array | None,
        cells: Array,
        what: str,
        against: tuple[str, ...],
        positions: Array | None = None,
    ) -> None:
        for kind in against:
            if kind not in self._stamps:
                continue
            stamps = self._stamps[kind][cells]
            racing = self.clock.unordered(stamps)
            if not racing.any():
                continue
            hit = racing.reshape(index.size, -1).any(axis=1)
            which = int(np.argmax(hit))
            if positions is None:
                positions = np.argwhere(np.ones(index.shape, dtype=bool) if lanes is None else lanes)
            stamp = int(stamps[racing].ravel()[0])
            program, site = self.clock.program_of(stamp), self.clock.site_of(stamp)
            recorder = self.clock.recorder
            element = int(index.ravel()[which])
            recorder.add(
                DataRace,
                f"{what} of {slot.name}[{element}], which program {program} {_PAST[kind]}",
                what,
                positions[which],
                other=recorder.access(kind, program, (), site),
                variable=slot.name,
                index=element,
                count=int(hit.sum()),
                hint="Programs of a grid run in any order: give each element one program, or use tl.atomic_*.",
            )
            return

    def _report_uninitialized(self, slot: Slot, index: Array, lanes: Array | None, fresh: Array) -> None:
        which = int(np.argmax(fresh))
        position = np.argwhere(np.ones(index.shape, dtype=bool) if lanes is None else lanes)[which]
        element = int(index.ravel()[which])
        self.clock.recorder.add(
            UninitializedRead,
            f"read of {slot.name}[{element}], an output that no program had written",
            "read",
            position,
            variable=slot.name,
            index=element,
            count=int(fresh.sum()),
        )


_PAST = {
    "read": "reads",
    "write": "writes",
    "atomic": "changes by an atomic operation",
    "atomic read": "reads",
}
