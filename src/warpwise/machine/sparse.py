"""Copies of memory that a process has reserved and not touched: they occupy no memory either."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

FROM_BYTES = 1 << 30  # a smaller copy is made as a whole
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # in Python from 3.11


def reserved(nbytes: int) -> mmap.mmap:
    """Zeros that occupy memory where they are written. Raises ``OSError`` without the address space."""
    return mmap.mmap(-1, max(1, nbytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)


def copied(address: int, nbytes: int) -> np.ndarray:
    """Return a copy of the bytes at ``address``; pages that are not in memory are not touched."""
    if nbytes < FROM_BYTES:
        data = np.empty(nbytes, np.uint8)
        ctypes.memmove(data.ctypes.data, address, nbytes)
        return data
    data = np.frombuffer(reserved(nbytes), np.uint8)
    for start, stop in _resident(address, nbytes):
        ctypes.memmove(data.ctypes.data + start, address + start, stop - start)
    return data


def _resident(address: int, nbytes: int) -> list[tuple[int, int]]:
    """The ranges of offsets whose pages are in memory; all if the system does not say."""
    page = mmap.PAGESIZE
    start = address // page * page
    flags = np.zeros(-(-(address + nbytes - start) // page), np.uint8)
    mincore = getattr(ctypes.CDLL(None), "mincore", None)
    arguments = ctypes.c_void_p(start), ctypes.c_size_t(len(flags) * page), ctypes.c_void_p(flags.ctypes.data)
    if mincore is None or mincore(*arguments):
        return [(0, nbytes)]
    edges = np.flatnonzero(np.diff(flags & 1, prepend=0, append=0))
    offsets = np.clip(edges.astype(np.int64) * page + start - address, 0, nbytes)
    return [(int(first), int(last)) for first, last in offsets.reshape(-1, 2)]
