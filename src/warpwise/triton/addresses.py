"""Pointers in memory: a kernel loads the address of a tensor that is no argument, from a table of ``data_ptr()``.

An integer that becomes a pointer is the real address of an element of a CPU tensor, as it is on a GPU. ``LiveTensors``
finds the tensor among those that Python holds and gives it an address range like that of an argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton.language as tl

from warpwise.cuda.launch.extents import byte_range, extent_bytes, live_tensors
from warpwise.triton.compat import TensorHandle
from warpwise.triton.memory import FIRST_ADDRESS, Allocation, Memory
from warpwise.triton.races import AccessTracker, Shadow

Array = np.ndarray[Any, np.dtype[Any]]


def _addresses_of(tensor: torch.Tensor) -> range:
    return range(*byte_range(tensor))


def _preference(tensor: torch.Tensor, address: int) -> tuple[bool, int, int, int]:
    """Order tensors that hold ``address``: one that begins there, then the largest, then not a view as bytes."""
    return tensor.data_ptr() == address, extent_bytes(tensor), tensor.element_size(), tensor.ndim


class LiveTensors:
    """Tensors whose addresses a launch loads from memory, not its arguments; collected at the first such address."""

    def __init__(self, memory: Memory, tracker: AccessTracker, checks: str) -> None:
        self.memory = memory
        self.tracker = tracker
        self.tracks_races = checks == "all"
        self._tensors: list[tuple[range, torch.Tensor]] | None = None
        self._shadows: dict[int, Shadow] = {}  # by the address of the storage
        self._found: dict[int, Allocation | None] = {}
        self._count = 0

    def pointers(self, addresses: Array) -> Array:
        """Return real addresses as addresses of the interpreter; those in no tensor are unchanged."""
        left = (addresses < np.uint64(FIRST_ADDRESS)) & (addresses != 0)
        if not left.any():
            return addresses
        result = addresses.copy()
        while left.any():
            address = int(addresses[left][0])
            if address not in self._found:
                self._found[address] = self._allocation(address)
            allocation = self._found[address]
            if allocation is None:
                left &= addresses != np.uint64(address)
                continue
            start = allocation.tensor.data_ptr()
            inside = left & (addresses >= np.uint64(start)) & (addresses < np.uint64(start + allocation.nbytes))
            result[inside] = addresses[inside] - np.uint64(start) + np.uint64(allocation.base)
            left &= ~inside
        return result

    def _allocation(self, address: int) -> Allocation | None:
        """Return the range of the tensor at ``address``: of several, the largest of those that begin there."""
        known = [found for found in self.memory.allocations.values() if found.nbytes]
        if at := [found for found in known if address in _addresses_of(found.tensor)]:
            return max(at, key=lambda found: _preference(found.tensor, address))
        if self._tensors is None:
            self._tensors = [(_addresses_of(item), item) for item in live_tensors()]
        live = [item for addresses, item in self._tensors if address in addresses]
        return self._add(max(live, key=lambda item: _preference(item, address))) if live else None

    def _add(self, tensor: torch.Tensor) -> Allocation:
        allocation = self.memory.add(f"pointee{self._count}", tensor)
        self._count += 1
        if self.tracks_races:
            storage = tensor.untyped_storage()
            shift = tensor.element_size().bit_length() - 1
            shadow = Shadow(storage.nbytes(), shift, self.tracker, True)
            allocation.shadow = self._shadows.setdefault(storage.data_ptr(), shadow)
            allocation.origin = tensor.data_ptr() - storage.data_ptr()
        return allocation


def int_to_ptr(builder: Any, src: TensorHandle, dtype: tl.dtype) -> TensorHandle:
    """``create_int_to_ptr`` of the builder."""
    addresses = src.data.astype(np.uint64)  # keeps the bits of a negative number
    return TensorHandle(builder.memory.real_pointers(addresses), dtype.scalar)
