"""Shared memory of one program: contents, asynchronous operations in flight, mbarriers, and reports of early accesses.

Asynchronous operations execute when they are issued. Each element records the operation that writes or reads it until
the program waits for that operation: an access before the wait is a data race.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from warpwise.cuda.errors import DataRace, Deadlock, OutOfBounds, UndefinedBehaviour, UninitializedRead
from warpwise.triton.findings import Recorder, Site
from warpwise.triton.gluon.partitions import Partitions

Array = np.ndarray[Any, np.dtype[Any]]
_WAITS = {
    "async_copy": "Call async_copy.commit_group and async_copy.wait_group before the access.",
    "TMA load": "Wait for the phase of its mbarrier before the access.",
    "TMA store": "Call tma.store_wait before the access.",
    "warpgroup_mma": "Call warpgroup_mma_wait before the access.",
}


@dataclasses.dataclass
class AsyncOperation:
    """An asynchronous operation; ``mbarrier`` and ``phase`` are those that its completion arrives at, if any."""

    number: int
    what: str
    site: Site
    mbarrier: Mbarrier | None = None
    phase: int = 0
    done: bool = False


@dataclasses.dataclass
class Mbarrier:
    """State of an mbarrier: arrivals and bytes that the current phase still waits for, and completed phases."""

    count: int
    pending: int
    site: Site
    transaction_bytes: int = 0
    completed: int = 0

    def advance(self) -> None:
        if self.pending == 0 and self.transaction_bytes == 0:
            self.completed += 1
            self.pending = self.count


@dataclasses.dataclass
class SharedView:
    """A view of shared memory. The arrays have one shape: values, and for each element its state.

    ``writer`` and ``reader`` are numbers of asynchronous operations, 0 for none; ``unfenced``: written by threads since
    the last ``fence_async_shared``.
    """

    type: Any
    site: Site
    data: Array
    written: Array
    writer: Array
    reader: Array
    unfenced: Array
    outside: str = ""

    def view(self, type: Any, change: Callable[[Array], Array]) -> SharedView:
        return SharedView(
            type,
            self.site,
            change(self.data),
            change(self.written),
            change(self.writer),
            change(self.reader),
            change(self.unfenced),
            self.outside,
        )

    def check_inside(self) -> None:
        """Raise ``OutOfBounds`` if the view has an index outside of its allocation."""
        if self.outside:
            raise OutOfBounds(self.outside)

    @property
    def address(self) -> int:
        return int(self.data.__array_interface__["data"][0])

    @property
    def name(self) -> str:
        return f"shared memory allocated at line {self.site[1]}"


class SharedMemory:
    """Shared memory of one program."""

    def __init__(self, recorder: Recorder, partitions: Partitions) -> None:
        self.recorder = recorder
        self.partitions = partitions
        self.blocks: list[SharedView] = []
        self.operations: list[AsyncOperation] = []
        self.mbarriers: dict[int, Mbarrier] = {}
        self._loads: list[AsyncOperation] = []  # TMA loads in flight
        # By partition: async copies that are not committed yet, and by kind of operation the committed groups.
        self._copies: dict[int, list[AsyncOperation]] = {}
        self._groups: dict[tuple[int, str], list[list[AsyncOperation]]] = {}

    def allocate(self, type: Any, dtype: np.dtype[Any]) -> SharedView:
        shape = tuple(type.shape)
        view = SharedView(
            type,
            self.recorder.sources.site(),
            np.zeros(shape, dtype),
            np.zeros(shape, bool),
            np.zeros(shape, np.int32),
            np.zeros(shape, np.int32),
            np.zeros(shape, bool),
        )
        self.blocks.append(view)
        return view

    # Asynchronous operations.

    def start(self, what: str, mbarrier: Mbarrier | None = None) -> AsyncOperation:
        phase = mbarrier.completed if mbarrier is not None else 0
        operation = AsyncOperation(len(self.operations) + 1, what, self.recorder.sources.site(), mbarrier, phase)
        self.operations.append(operation)
        if mbarrier is not None:
            self._loads.append(operation)
        return operation

    def open_copies(self) -> list[AsyncOperation]:
        """Return the async copies of the partition that are in no group yet."""
        return self._copies.setdefault(self.partitions.current, [])

    def take_copies(self) -> list[AsyncOperation]:
        return self._copies.pop(self.partitions.current, [])

    def commit(self, what: str, operations: list[AsyncOperation]) -> None:
        """Make a group of the operations."""
        self._groups.setdefault((self.partitions.current, what), []).append(operations)

    def wait_group(self, what: str, outstanding: int) -> None:
        """Complete all but the last ``outstanding`` groups of the partition."""
        groups = self._groups.get((self.partitions.current, what), [])
        while len(groups) > outstanding:
            for operation in groups.pop(0):
                operation.done = True

    def fence(self) -> None:
        for block in self.blocks:
            block.unfenced[...] = False

    def _in_flight(self, numbers: Array) -> tuple[AsyncOperation, Array] | None:
        """Return an operation among ``numbers`` that the program has not waited for, and its elements."""
        first = numbers.flat[0]
        for number in (first,) if (numbers == first).all() else np.unique(numbers):
            if number and not self.operations[number - 1].done:
                return self.operations[number - 1], numbers == number
        return None

    # Accesses.

    def read(self, view: SharedView, what: str, operation: AsyncOperation | None = None) -> Array:
        """Return the values; ``operation`` is the asynchronous operation that reads them."""
        view.check_inside()
        pending = self._in_flight(view.writer)
        if pending is not None:
            self._race(view, f"{what} of {view.name}, which an unfinished {pending[0].what} writes", "read", *pending)
        elif not view.written.all():
            missing = ~view.written
            self.recorder.add(
                UninitializedRead,
                f"{what} of {view.name}, of which {int(missing.sum()):,} elements were never written",
                "read",
                np.argwhere(missing)[0],
                count=int(missing.sum()),
                space="shared",
            )
        if operation is not None:
            view.reader[...] = operation.number
        return view.data.copy()

    def write(self, view: SharedView, what: str, values: Array, operation: AsyncOperation | None = None) -> None:
        """Write the values; ``operation`` is the asynchronous operation that writes them."""
        view.check_inside()
        for numbers, verb in ((view.writer, "writes"), (view.reader, "reads")):
            pending = self._in_flight(numbers)
            if pending is not None:
                self._race(
                    view, f"{what} to {view.name}, which an unfinished {pending[0].what} {verb}", "write", *pending
                )
                break
        view.data[...] = values
        view.written[...] = True
        view.reader[...] = 0
        view.writer[...] = 0 if operation is None else operation.number
        view.unfenced[...] = operation is None

    def check_fenced(self, view: SharedView, what: str) -> None:
        """Report elements that threads wrote and that the async proxy reads without a fence between."""
        if view.unfenced.any():
            self.recorder.add(
                DataRace,
                f"{what} of {view.name}, which threads wrote without a fence_async_shared since",
                "read",
                np.argwhere(view.unfenced)[0],
                count=int(view.unfenced.sum()),
                hint="Call fence_async_shared() after the store to shared memory.",
                space="shared",
            )
            view.unfenced[...] = False

    def _race(self, view: SharedView, message: str, what: str, operation: AsyncOperation, lanes: Array) -> None:
        recorder = self.recorder
        recorder.add(
            DataRace,
            message,
            what,
            np.argwhere(lanes)[0],
            other=recorder.access(operation.what, recorder.program, (), operation.site),
            count=int(lanes.sum()),
            hint=_WAITS[operation.what],
            space="shared",
        )
        operation.done = True

    # Mbarriers.

    def init_mbarrier(self, view: SharedView, count: int) -> None:
        view.check_inside()
        self.mbarriers[view.address] = Mbarrier(count, count, self.recorder.sources.site())

    def mbarrier(self, view: SharedView) -> Mbarrier:
        view.check_inside()
        found = self.mbarriers.get(view.address)
        if found is None:
            raise UndefinedBehaviour(f"mbarrier in {view.name} is used before mbarrier.init")
        return found

    def invalidate_mbarrier(self, view: SharedView) -> None:
        self.mbarrier(view)
        del self.mbarriers[view.address]

    def arrive(self, view: SharedView, count: int, expected_bytes: int = 0) -> None:
        mbarrier = self.mbarrier(view)
        if count > mbarrier.pending:
            raise UndefinedBehaviour(
                f"{count} arrivals at an mbarrier whose current phase expects {mbarrier.pending} more of "
                f"{mbarrier.count}: a consumer or a producer arrives too often"
            )
        mbarrier.pending -= count
        mbarrier.transaction_bytes += expected_bytes
        mbarrier.advance()

    def passed(self, view: SharedView, parity: int) -> bool:
        """Return True if the phase of ``parity`` has completed; its TMA loads are then visible."""
        mbarrier = self.mbarrier(view)
        if mbarrier.completed & 1 == parity & 1:
            return False
        for operation in self._loads:
            operation.done |= operation.mbarrier is mbarrier and operation.phase < mbarrier.completed
        self._loads = [operation for operation in self._loads if not operation.done]
        return True

    def deadlock(self, view: SharedView, parity: int) -> Deadlock:
        """Return the error of a wait that never ends."""
        mbarrier = self.mbarrier(view)
        reasons = []
        if mbarrier.pending:
            reasons.append(f"{mbarrier.pending} of {mbarrier.count} arrivals are missing")
        if mbarrier.transaction_bytes > 0:
            reasons.append(f"{mbarrier.transaction_bytes:,} bytes that mbarrier.expect announced were not copied")
        elif mbarrier.transaction_bytes < 0:
            reasons.append(f"{-mbarrier.transaction_bytes:,} more bytes were copied than mbarrier.expect announced")
        return Deadlock(
            f"mbarrier.wait for phase {parity} never ends: {mbarrier.completed} phases have completed; in the current "
            f"one {' and '.join(reasons)}"
        )
