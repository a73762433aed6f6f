"""Shadow memory: records which program accessed each element, to find data races between programs of a grid.

Programs of a grid run concurrently and in any order. Two programs race if both access an element and one of them
changes its value by a non-atomic store, unless atomics may have ordered them: the first program executed an atomic with
release semantics after its access, and the second one an atomic with acquire semantics before its access. A reported
race is a race; a race between programs that execute such atomics can be missed. A release by a scalar atomic may order
only the accesses before the last barrier: see ``releases``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from warpwise.cuda.errors import DataRace, UninitializedRead
from warpwise.triton.compat import ATOMICS_WAIT_FOR_ALL_THREADS
from warpwise.triton.equal_stores import EqualStores
from warpwise.triton.findings import Recorder, Site
from warpwise.triton.lane_order import LaneOrder
from warpwise.triton.releases import PendingAccesses

if TYPE_CHECKING:
    from warpwise.triton.memory import Allocation

Array = np.ndarray[Any, np.dtype[Any]]
_MAX_REGULAR_STEPS = 4  # distinct differences of successive indices: the strides of up to 3 dimensions and a wrap
_MAX_RELEASES = 255  # largest count in a stamp: if a program has more, its later accesses count as released
_PROGRAM_MASK = np.int64((1 << 32) - 1)


class AccessTracker:
    """The current program, the programs that released or acquired by an atomic, and the lines that accessed memory."""

    def __init__(self, grid: tuple[int, int, int], recorder: Recorder, num_warps: int = 1) -> None:
        self.grid = grid
        self.recorder = recorder
        self.program = 0
        self.phase = 0  # incremented where the lanes of a program may have been synchronised
        self.finds_lanes = num_warps > 1  # look for accesses that no barrier between warps orders
        self.pending_accesses = PendingAccesses(32 * num_warps)
        self.releases = np.zeros(64, dtype=np.int32)  # by program + 1: how many it has executed
        self.acquired = np.zeros(64, dtype=bool)
        self.sites: dict[tuple[Site, int, Site | None], int] = {}
        self.site_list: list[Site] = []
        self.unreleased_by: list[Site | None] = []  # by index of a line: the atomic that fails to release its accesses
        self.releases_before = np.zeros(64, dtype=np.int32)  # by index of a line: in the program, at most _MAX_RELEASES

    def stamp(self) -> np.int64:
        """Return program + 1 in the low 32 bits, and in the high 32 bits the index of the current source line and of
        the number of releases before it."""
        site = self.recorder.sources.site()
        return self._stamp(site, None)

    def _stamp(self, site: Site, unreleased_by: Site | None) -> np.int64:
        before = (
            0 if self.program + 1 >= self.releases.size else min(int(self.releases[self.program + 1]), _MAX_RELEASES)
        )
        number = self.sites.get((site, before, unreleased_by))
        if number is None:
            number = self.sites[site, before, unreleased_by] = len(self.site_list)
            self.site_list.append(site)
            self.unreleased_by.append(unreleased_by)
            if number == self.releases_before.size:
                self.releases_before = np.concatenate([self.releases_before, np.zeros(number, dtype=np.int32)])
            self.releases_before[number] = before
        return np.int64((number << 32) | (self.program + 1))

    def program_of(self, stamp: int) -> tuple[int, int, int]:
        """Return a stamp's program as grid coordinates; x varies fastest."""
        number = (int(stamp) & int(_PROGRAM_MASK)) - 1
        return number % self.grid[0], number // self.grid[0] % self.grid[1], number // (self.grid[0] * self.grid[1])

    def site_of(self, stamp: int) -> Site:
        return self.site_list[int(stamp) >> 32]

    def hint(self, stamp: int) -> str:
        """Return a hint how to fix a race with the access of this stamp."""
        atomic = self.unreleased_by[int(stamp) >> 32]
        if atomic is None:
            return "Programs of a grid run concurrently: let one program write each element, or use tl.atomic_*."
        return (
            f"One thread executes the atomic at line {atomic[1]}, without waiting for the accesses of the others: "
            "put tl.debug_barrier() before it."
        )

    def record_ordering_atomic(self, releases: bool, acquires: bool) -> None:
        """Record that the current program executed an atomic with release or acquire semantics."""
        number = self.program + 1
        if number >= self.releases.size:
            self.releases = np.concatenate([self.releases, np.zeros(number + 1, dtype=np.int32)])
            self.acquired = np.concatenate([self.acquired, np.zeros(number + 1, dtype=bool)])
        self.releases[number] += releases
        self.acquired[number] |= acquires

    def discard_atomic(self, releases: bool) -> None:
        """Record that the result of the latest scalar atomic is not used: the atomic then synchronises no threads.

        Accesses since the last barrier count as accesses after its release.
        """
        if ATOMICS_WAIT_FOR_ALL_THREADS:
            return
        self.phase -= 1  # undo the phase that the atomic began
        if releases and self.finds_lanes:
            atomic = self.recorder.sources.site()
            self.pending_accesses.restamp(self.phase, lambda stamp: self._stamp(self.site_of(int(stamp)), atomic))

    def unordered(self, stamps: Array) -> Array:
        """Return a mask of the stamps of other programs that no atomic may have ordered before the current one."""
        owners = stamps & _PROGRAM_MASK
        foreign = (owners != 0) & (owners != self.program + 1)
        if self.program + 1 < self.acquired.size and self.acquired[self.program + 1]:
            foreign &= self.releases[owners] <= self.releases_before[stamps >> 32]
        return foreign


class Shadow:
    """Shadow of one range of memory in granules of ``1 << shift`` bytes. Overlapping arguments share a shadow."""

    def __init__(self, nbytes: int, shift: int, tracker: AccessTracker, track_races: bool) -> None:
        self.shift = shift
        self.tracker = tracker
        self.track_races = track_races
        granules = (nbytes >> shift) + 1
        self.written: Array | None = None
        self._granules = granules
        self._stamps: dict[str, Array] = {}
        self._lane_order = LaneOrder(granules)
        self._equal_stores = EqualStores(granules)
        self._loads: deque[tuple[int, Array]] = deque(maxlen=4)  # the latest: program and elements

    def _stamp_array(self, kind: str) -> Array:
        found = self._stamps.get(kind)
        if found is None:
            found = self._stamps[kind] = np.zeros(self._granules, dtype=np.int64)
        return found

    def track_writes(self) -> None:
        """Track which granules were written; used for outputs."""
        if self.written is None:
            self.written = np.zeros(self._granules, dtype=bool)

    def granules(self, allocation: Allocation, index: Array, itemsize: int) -> Array | None:
        """Return the granules of each element (a last axis if several); None if elements are smaller than a granule."""
        width = itemsize >> self.shift
        if width == 0:
            return None
        first = (
            index * width + (allocation.origin >> self.shift)
            if width > 1
            else index + (allocation.origin >> self.shift)
        )
        return first if width == 1 else first[..., None] + np.arange(width)

    def read(self, allocation: Allocation, index: Array, lanes: Array | None, itemsize: int, atomic: bool) -> None:
        """Record a load; report unwritten elements of an output, and races with stores of other programs."""
        granules = self.granules(allocation, index, itemsize)
        if granules is None:
            return
        if self.written is not None and allocation.output:
            unwritten = ~self.written[granules]
            if unwritten.any():
                self._report_uninitialized(
                    allocation, index, lanes, np.asarray(unwritten.reshape(index.size, -1).any(axis=1))
                )
        if not self.track_races:
            return
        if not atomic:
            self._loads.append((self.tracker.program, index))
            if self.tracker.finds_lanes:
                found = self._lane_order.read(
                    granules, index, lanes, self.tracker.phase, self.tracker.recorder.sources.site
                )
                if found is not None:
                    self._report_lanes("read", "write", allocation, index, lanes, *found)
        self._conflicts(allocation, index, lanes, granules, "read", ("write",) if atomic else ("write", "atomic"))
        stamp = self._mark("atomic read" if atomic else "read", granules)
        if stamp is not None and not atomic:
            self._add_pending("read", index, lanes, granules, stamp)

    def write(self, allocation: Allocation, index: Array, lanes: Array | None, values: Array, view: Array) -> None:
        """Record a non-atomic store before it happens. Only elements whose value it changes count."""
        granules = self.granules(allocation, index, view.itemsize)
        if granules is None:
            return
        if self.written is not None:
            self.written[granules] = True
        if not self.track_races:
            return
        bits = np.dtype(f"u{view.itemsize}")
        changed = view[index].view(bits) != np.ascontiguousarray(values).view(bits)
        if not changed.all() and "write" in self._stamps:
            equal = granules[~changed]
            stamps = self._stamps["write"][equal]
            self._equal_stores.add(equal, stamps, stamps & _PROGRAM_MASK, self.tracker.program + 1)
        if not changed.any():
            return
        if self.tracker.finds_lanes:
            found = self._lane_order.write(
                granules, index, lanes, changed, self.tracker.phase, self.tracker.recorder.sources.site
            )
            if found is not None:
                self._report_lanes("write", found[0], allocation, index, lanes, *found[1:])
        self._report_lost_updates(allocation, index, lanes, changed, view)
        positions: Array | None
        if not changed.all():
            positions = np.argwhere(changed if lanes is None else lanes)
            positions = positions if lanes is None else positions[changed]
            index, granules, lanes = index[changed], granules[changed], changed if lanes is None else lanes
        else:
            positions = None if lanes is None else np.argwhere(lanes)
        self._conflicts(
            allocation, index, None, granules, "write", ("write", "atomic", "read", "atomic read"), positions
        )
        stamp = self.tracker.stamp()
        self._stamp_array("write")[granules] = stamp
        self._add_pending("write", index, lanes, granules, stamp)

    def _add_pending(self, kind: str, index: Array, lanes: Array | None, granules: Array, stamp: np.int64) -> None:
        """Record a stamped access, which an atomic before the next barrier may fail to release."""
        if self.tracker.finds_lanes:
            block = index.size if lanes is None else lanes.size
            stamps = self._stamp_array(kind)
            self.tracker.pending_accesses.add(self.tracker.phase, index.size, block, stamps, granules, stamp)

    def _report_lanes(
        self, what: str, before: str, allocation: Allocation, index: Array, lanes: Array | None, which: int, site: Site
    ) -> None:
        recorder = self.tracker.recorder
        element = int(index.ravel()[which])
        recorder.add(
            DataRace,
            f"{what} of {allocation.name}[{element}], which another lane of the program {_VERBS[before]}",
            what,
            _positions(index, lanes)[which],
            other=recorder.access(before, recorder.program, (), site),
            variable=allocation.name,
            index=element,
            hint="The warps of a program are not synchronised: put tl.debug_barrier() between the two accesses.",
        )

    def _report_lost_updates(
        self, allocation: Allocation, index: Array, lanes: Array | None, changed: Array, view: Array
    ) -> None:
        """Report elements that several lanes of the program have loaded, and write back changed, as a histogram does.

        Regular indices are left out: lanes that share an element by broadcasting or wrapping compute the same value.
        """
        program = self.tracker.program
        if not any(
            number == program and loaded.shape == index.shape and np.array_equal(loaded, index)
            for number, loaded in self._loads
        ):
            return
        elements = index.ravel()
        if len(np.unique(np.diff(elements))) <= _MAX_REGULAR_STEPS:
            return
        _, inverse, counts = np.unique(elements, return_inverse=True, return_counts=True)
        lost = (counts[inverse.ravel()] > 1) & changed.ravel()
        if not lost.any():
            return
        which = int(np.argmax(lost))
        element, updates = int(elements[which]), int(counts[inverse.ravel()[which]])
        self.tracker.recorder.add(
            DataRace,
            f"{updates} lanes load, change and store {allocation.name}[{element}]: one of the changes is kept",
            "write",
            _positions(index, lanes)[which],
            variable=allocation.name,
            index=element,
            size=view.size,
            count=int(lost.sum()),
            hint="Use tl.atomic_add or another atomic operation, or tl.histogram.",
        )

    def check_lane_conflicts(
        self, allocation: Allocation, index: Array, lanes: Array | None, values: Array, view: Array
    ) -> None:
        """After a store: report lanes that wrote different values to the same element."""
        if not self.track_races:
            return
        bits = np.dtype(f"u{view.itemsize}")
        lost = (view[index].view(bits) != np.ascontiguousarray(values).view(bits)).ravel()
        if not lost.any():
            return
        which = int(np.argmax(lost))
        position = _positions(index, lanes)[which]
        element = int(index.ravel()[which])
        self.tracker.recorder.add(
            DataRace,
            f"lanes of one store write different values to {allocation.name}[{element}]",
            "write",
            position,
            variable=allocation.name,
            index=element,
            size=view.size,
            count=int(lost.sum()),
            hint="The stored value is undefined; reduce the values first or use an atomic operation.",
        )

    def atomic(self, allocation: Allocation, index: Array, lanes: Array | None, itemsize: int) -> None:
        """Record an atomic read-modify-write before it happens."""
        granules = self.granules(allocation, index, itemsize)
        if granules is None:
            return
        if self.written is not None:
            if allocation.output and not self.written[granules].all():
                unwritten = np.asarray((~self.written[granules]).reshape(index.size, -1).any(axis=1))
                self._report_uninitialized(allocation, index, lanes, unwritten)
            self.written[granules] = True
        if self.track_races:
            self._conflicts(allocation, index, lanes, granules, "atomic", ("write", "read"))
            self._mark("atomic", granules)

    def _mark(self, kind: str, granules: Array) -> np.int64 | None:
        """Stamp the granules that have no stamp of this kind: the first program is kept. Return the stamp, or None."""
        stamps = self._stamp_array(kind)
        unwritten = stamps[granules] == 0
        if not unwritten.any():
            return None
        stamp = self.tracker.stamp()
        stamps[granules[unwritten]] = stamp
        return stamp

    def _conflicts(
        self,
        allocation: Allocation,
        index: Array,
        lanes: Array | None,
        granules: Array,
        what: str,
        against: tuple[str, ...],
        positions: Array | None = None,
    ) -> None:
        for kind in against:
            if kind not in self._stamps:
                continue
            stamps = self._stamps[kind][granules]
            racing = self.tracker.unordered(stamps)
            if what == "read" and kind == "write":
                racing &= np.logical_not(self._equal_stores.repeated(granules, stamps, self.tracker.program + 1))
            if not racing.any():
                continue
            hit = racing.reshape(index.size, -1).any(axis=1)
            which = int(np.argmax(hit))
            if positions is None:
                positions = _positions(index, lanes)
            stamp = int(stamps[racing].ravel()[0])
            program, site = self.tracker.program_of(stamp), self.tracker.site_of(stamp)
            recorder = self.tracker.recorder
            element = int(index.ravel()[which])
            recorder.add(
                DataRace,
                f"{what} of {allocation.name}[{element}], which program {program} {_VERBS[kind]}",
                what,
                positions[which],
                other=recorder.access(kind, program, (), site),
                variable=allocation.name,
                index=element,
                count=int(hit.sum()),
                hint=self.tracker.hint(stamp),
            )
            return

    def _report_uninitialized(
        self, allocation: Allocation, index: Array, lanes: Array | None, unwritten: Array
    ) -> None:
        which = int(np.argmax(unwritten))
        position = _positions(index, lanes)[which]
        element = int(index.ravel()[which])
        self.tracker.recorder.add(
            UninitializedRead,
            f"read of {allocation.name}[{element}], an output element that no program has written",
            "read",
            position,
            variable=allocation.name,
            index=element,
            count=int(unwritten.sum()),
        )


def _positions(index: Array, lanes: Array | None) -> Array:
    """The position in the block of each active lane, in the order of ``index``; all lanes are active if it is None."""
    return np.argwhere(np.ones(index.shape, dtype=bool) if lanes is None else lanes)


_VERBS = {
    "read": "reads",
    "write": "writes",
    "atomic": "updates atomically",
    "atomic read": "reads",
}
