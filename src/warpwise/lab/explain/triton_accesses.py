"""Count the requests and sectors of loads and stores in interpreted Triton programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from warpwise.lab.explain.model.explanation import TritonAccess

if TYPE_CHECKING:
    from warpwise.triton.memory import Memory

Array = np.ndarray[Any, np.dtype[Any]]
LANES, SECTOR, WIDEST = 32, 32, 16
_WORDS = {"read": "load", "write": "store"}


@dataclass
class _Sum:
    bytes: int = 0
    requests: int = 0
    sectors: int = 0
    ideal: int = 0
    vector: int = WIDEST


class Accesses:
    """Requests, sectors and bytes of a launch's loads, stores and atomics, summed over programs by source line and
    tensor.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, int, str, str], _Sum] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Count every access of interpreted programs inside this context."""
        from warpwise.triton.interpreter import INTERPRETER
        from warpwise.triton.memory import Memory

        with INTERPRETER.lock:
            before, Memory.access_hook = Memory.access_hook, self._note
            try:
                yield
            finally:
                Memory.access_hook = before

    def found(self) -> tuple[TritonAccess, ...]:
        """The sums, by file and line."""
        return tuple(
            TritonAccess(file, line, what, tensor, one.bytes, one.requests, one.sectors, one.ideal, one.vector)
            for (file, line, what, tensor), one in sorted(self._sums.items())
        )

    def _note(self, memory: Memory, pointer: Array, mask: Array | None, itemsize: int, what: str) -> None:
        file, line = memory.recorder.sources.site()
        active = pointer if mask is None else pointer[mask]
        if not active.size:
            return
        name = memory.describe_pointer(active.ravel()[:1], itemsize).partition(" + ")[0]
        one = self._sums.setdefault((file, line, _WORDS.get(what, what), name), _Sum())
        pointer, mask = contiguous_last(pointer, mask, itemsize)
        width = 1 if what == "atomic" else vector(pointer, mask, itemsize)
        requests, sectors, ideal = count(pointer, mask, itemsize, width)
        one.bytes += int(active.size) * itemsize
        one.requests += requests
        one.sectors += sectors
        one.ideal += ideal
        one.vector = min(one.vector, width * itemsize)


def contiguous_last(pointer: Array, mask: Array | None, itemsize: int) -> tuple[Array, Array | None]:
    """Flatten the block in the order in which lanes access it: the axis with consecutive addresses is the innermost."""
    if pointer.ndim > 1:
        for axis in range(pointer.ndim - 1, -1, -1):
            if pointer.shape[axis] > 1:
                first, second = (np.take(pointer, index, axis).ravel()[0] for index in (0, 1))
                if int(second) - int(first) == itemsize:
                    pointer = np.moveaxis(pointer, axis, -1)
                    mask = None if mask is None else np.moveaxis(np.broadcast_to(mask, pointer.shape), axis, -1)
                    break
    return pointer.ravel(), None if mask is None else np.asarray(mask).ravel()


def vector(pointer: Array, mask: Array | None, itemsize: int) -> int:
    """Elements that a lane can access at once: consecutive, aligned to their total size, with one mask value.

    At most 16 bytes, and at least one vector for each lane of a warp.
    """
    width = max(1, WIDEST // itemsize)
    while width > 1:
        if pointer.size % width == 0 and pointer.size >= LANES * width:
            groups = pointer.reshape(-1, width)
            steps = groups - groups[:, :1] == np.arange(width, dtype=np.uint64) * np.uint64(itemsize)
            whole = mask is None or bool((mask.reshape(-1, width).all(1) | ~mask.reshape(-1, width).any(1)).all())
            if whole and bool(steps.all()) and not (groups[:, 0] % np.uint64(width * itemsize)).any():
                return width
        width //= 2
    return 1


def count(pointer: Array, mask: Array | None, itemsize: int, width: int) -> tuple[int, int, int]:
    """The numbers of requests, of sectors they access, and of sectors that their distinct bytes would fill."""
    warp = np.arange(pointer.size) // (LANES * width)
    if mask is not None:
        pointer, warp = pointer[mask], warp[mask]
    # Elements are aligned to their size, so none spans two sectors.
    sectors = np.unique(np.stack((warp.astype(np.uint64), pointer // np.uint64(SECTOR))), axis=1).shape[1]
    distinct = np.unique(np.stack((warp.astype(np.uint64), pointer)), axis=1)[0]
    _, elements = np.unique(distinct, return_counts=True)
    ideal = int((-(-elements * itemsize // SECTOR)).sum())
    return len(elements), sectors, ideal
