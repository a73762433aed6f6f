"""The interpreter's virtual address space: each tensor argument has an address range of 2**44 bytes.

The upper bits of a pointer identify its tensor, also after pointer arithmetic that leaves the tensor. Each access is
checked in every active lane against the tensor's extent before the tensor's memory is read or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from warpwise.cuda.errors import MisalignedAccess, OutOfBounds, ReadOnlyWrite
from warpwise.cuda.launch.extents import extent_bytes
from warpwise.triton.findings import Recorder
from warpwise.triton.races import Shadow

Array = np.ndarray[Any, np.dtype[Any]]

_RANGE_BITS = 44
_FIRST_RANGE = 1 << 12  # above every host address, so that a host address is never a valid virtual address
FIRST_ADDRESS = _FIRST_RANGE << _RANGE_BITS
_ALIGNMENT = 256


def _undefined(dtype: np.dtype[Any]) -> Any:
    """NaN, or a large integer: what a masked lane reads without ``other`` is undefined on a GPU, and not always 0."""
    if np.issubdtype(dtype, np.inexact):
        return np.nan
    return True if dtype == np.bool_ else int.from_bytes(b"\x7b" * dtype.itemsize)


@dataclass
class Allocation:
    """The virtual address range of one tensor argument, and the tensor's memory."""

    name: str
    tensor: torch.Tensor
    base: int
    writable: bool
    output: bool
    memory: Array
    shadow: Shadow | None = None
    origin: int = 0
    views: dict[np.dtype[Any], Array] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes

    def view(self, dtype: np.dtype[Any]) -> Array:
        """Return the memory as elements of ``dtype``, without an incomplete last element."""
        found = self.views.get(dtype)
        if found is None:
            whole = self.nbytes - self.nbytes % dtype.itemsize
            found = self.views[dtype] = self.memory[:whole].view(dtype)
        return found


@dataclass
class Span:
    """The active lanes of an access that lie in one tensor, and their element indices; ``lanes`` is None for all."""

    allocation: Allocation
    index: Array
    lanes: Array | None


def _bytes_of(tensor: torch.Tensor) -> Array:
    """Return the tensor's extent as a uint8 view of its memory."""
    size = extent_bytes(tensor)
    if size == 0:
        return np.empty(0, dtype=np.uint8)
    whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    start = tensor.storage_offset() * tensor.element_size()
    return whole.numpy()[start : start + size]


class Memory:
    """The tensors of one launch. ``access_hook``, if set, is called with the arguments of ``spans`` at each access."""

    access_hook: ClassVar[Callable[[Memory, Array, Array | None, int, str], None] | None] = None

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.allocations: dict[int, Allocation] = {}
        self.changes = 0  # stores, and atomics that changed a value
        self.latest_read: tuple[Array, Array] | None = None  # addresses and values, of a load or an atomic
        self._polled: tuple[int, Array, Array] | None = None
        self.real_pointers: Callable[[Array], Array] = lambda addresses: addresses  # see LiveTensors.pointers

    def polls(self) -> bool:
        """Return True if since the last call nothing changed and the same values were read from the same addresses."""
        before, now = self._polled, self.latest_read
        self._polled = None if now is None else (self.changes, *now)
        self.latest_read = None
        return (
            before is not None
            and now is not None
            and before[0] == self.changes
            and all(np.array_equal(old, new) for old, new in zip(before[1:], now, strict=True))
        )

    def add(self, name: str, tensor: torch.Tensor, *, writable: bool = True, output: bool = False) -> Allocation:
        """Assign ``tensor`` an address range with the alignment of its real address."""
        number = _FIRST_RANGE + len(self.allocations)
        base = (number << _RANGE_BITS) + (1 << (_RANGE_BITS - 1)) + tensor.data_ptr() % _ALIGNMENT
        allocation = Allocation(name, tensor, base, writable, output, _bytes_of(tensor))
        self.allocations[number] = allocation
        return allocation

    def spans(self, pointer: Array, mask: Array | None, itemsize: int, what: str) -> Iterator[Span]:
        """Group the active lanes by tensor. Lanes that are out of bounds or misaligned are reported and left out."""
        if mask is not None and mask.all():
            mask = None
        if Memory.access_hook is not None:
            Memory.access_hook(self, pointer, mask, itemsize, what)
        active = pointer.ravel() if mask is None else pointer[mask]
        if not active.size:
            return
        number = int(active[0]) >> _RANGE_BITS
        allocation = self.allocations.get(number)
        offset = active - np.uint64(allocation.base if allocation else 0)
        if (
            allocation is not None
            and allocation.nbytes >= itemsize
            and bool((offset <= np.uint64(allocation.nbytes - itemsize)).all())
            and (itemsize == 1 or bool(self._aligned(offset, itemsize).all()))
        ):
            index = self._element_indices(offset, itemsize)
            yield Span(allocation, index.reshape(pointer.shape) if mask is None else index, mask)
            return
        yield from self._check_lanes(pointer, mask, itemsize, what)

    @staticmethod
    def _element_indices(offset: Array, itemsize: int) -> Array:
        """Convert byte offsets to element indices; ``itemsize`` is a power of two."""
        return (offset >> np.uint64(itemsize.bit_length() - 1)).view(np.int64)

    @staticmethod
    def _aligned(offset: Array, itemsize: int) -> Array:
        return (offset & np.uint64(itemsize - 1)) == 0

    def _check_lanes(self, pointer: Array, mask: Array | None, itemsize: int, what: str) -> Iterator[Span]:
        """Slow path of ``spans``: pointers into several tensors, out of bounds, or misaligned."""
        active = np.ones(pointer.shape, dtype=bool) if mask is None else mask.copy()
        numbers = pointer >> np.uint64(_RANGE_BITS)
        for number in np.unique(numbers[active]):
            lanes = active & (numbers == number)
            allocation = self.allocations.get(int(number))
            if allocation is None:
                self._report_unknown_address(pointer, lanes, what)
                continue
            offset = pointer - np.uint64(allocation.base)
            out_of_bounds = (
                lanes.copy()
                if allocation.nbytes < itemsize
                else lanes & (offset > np.uint64(allocation.nbytes - itemsize))
            )
            if out_of_bounds.any():
                self._report_out_of_bounds(allocation, offset, out_of_bounds, itemsize, what)
            misaligned = lanes & ~out_of_bounds & ~self._aligned(offset, itemsize)
            if misaligned.any():
                self._report_misaligned(allocation, offset, misaligned, itemsize, what)
            inside = lanes & ~out_of_bounds & ~misaligned
            if inside.any():
                yield Span(allocation, self._element_indices(offset[inside], itemsize), inside)

    def _report_unknown_address(self, pointer: Array, lanes: Array, what: str) -> None:
        lane = np.argwhere(lanes)[0]
        address = int(pointer[tuple(lane)])
        self.recorder.add(
            OutOfBounds,
            f"{what} of address {address:#x}, which is in no tensor",
            what,
            lane,
            count=int(lanes.sum()),
            hint="A pointer must be derived from an argument, or be the address of a CPU tensor that Python holds.",
        )

    def _report_out_of_bounds(
        self, allocation: Allocation, offset: Array, lanes: Array, itemsize: int, what: str
    ) -> None:
        size = allocation.tensor.element_size()
        elements = extent_bytes(allocation.tensor) // size
        lane = np.argwhere(lanes)[0]
        byte = int(offset[tuple(lane)].astype(np.int64))
        index = byte // size
        shape = tuple(allocation.tensor.shape)
        position = f"{allocation.name}[{index}]" + (f" + {byte % size} bytes" if byte % size else "")
        which = "before its start" if byte < 0 else f"{index - elements + 1} past its last element"
        layout = "" if allocation.tensor.is_contiguous() else f", strides {allocation.tensor.stride()}"
        count = f"{elements} element{'' if elements == 1 else 's'}"
        start = allocation.tensor.storage_offset() * size
        if 0 <= start + byte <= allocation.tensor.untyped_storage().nbytes() - itemsize:
            hint = f"{allocation.name} is a view, and its storage has this element. May the kernel access all of it?"
        else:
            hint = "" if byte < 0 else "Is a mask missing, or is its bound wrong?"
        self.recorder.add(
            OutOfBounds,
            f"{what} of {position}, {which}: {allocation.name} has {count}, shape {shape}{layout}",
            what,
            lane,
            variable=allocation.name,
            index=index,
            size=elements,
            count=int(lanes.sum()),
            hint=hint,
        )

    def _report_misaligned(self, allocation: Allocation, offset: Array, lanes: Array, itemsize: int, what: str) -> None:
        lane = np.argwhere(lanes)[0]
        byte = int(offset[tuple(lane)])
        self.recorder.add(
            MisalignedAccess,
            f"{what} of {itemsize} bytes at byte {byte} of {allocation.name}, which is not a multiple of {itemsize}",
            what,
            lane,
            variable=allocation.name,
            index=byte // allocation.tensor.element_size(),
            count=int(lanes.sum()),
        )

    def describe_pointer(self, pointer: Array, itemsize: int) -> str:
        """Format addresses as the tensor's name and element offsets."""
        allocation = self.allocations.get(int(pointer.ravel()[0]) >> _RANGE_BITS)
        if allocation is None:
            return f"addresses {pointer}"
        index = (pointer - np.uint64(allocation.base)).view(np.int64) // itemsize
        return f"{allocation.name} + {index.item() if index.size == 1 else index}"

    def name_of(self, pointer: Array) -> str:
        """Return the name of the tensor that the first lane of a pointer points to."""
        allocation = self.allocations.get(int(pointer.ravel()[0]) >> _RANGE_BITS)
        return "no tensor" if allocation is None else allocation.name

    def load(
        self, pointer: Array, mask: Array | None, other: Array | None, dtype: np.dtype[Any], atomic: bool
    ) -> Array:
        """Return the elements at ``pointer``; ``other``, or else a fill pattern, where ``mask`` is false."""
        pointer = np.asarray(pointer, dtype=np.uint64)
        result = self._load(pointer, mask, other, dtype, atomic)
        self.latest_read = pointer, result
        return result

    def _load(
        self, pointer: Array, mask: Array | None, other: Array | None, dtype: np.dtype[Any], atomic: bool
    ) -> Array:
        result: Array | None = None
        for span in self.spans(pointer, mask, dtype.itemsize, "read"):
            if span.allocation.shadow is not None:
                span.allocation.shadow.read(span.allocation, span.index, span.lanes, dtype.itemsize, atomic)
            values = span.allocation.view(dtype)[span.index]
            if span.lanes is None:
                return values
            if result is None:
                result = self._masked_values(pointer, other, dtype)
            result[span.lanes] = values
        return self._masked_values(pointer, other, dtype) if result is None else result

    @staticmethod
    def _masked_values(pointer: Array, other: Array | None, dtype: np.dtype[Any]) -> Array:
        if other is None:
            # Triton tests `if other`, which is false for a single 0.
            return np.full(pointer.shape, 0 if pointer.size == 1 else _undefined(dtype), dtype=dtype)
        return np.array(np.broadcast_to(other, pointer.shape), dtype=dtype)

    def store(self, pointer: Array, values: Array, mask: Array | None, dtype: np.dtype[Any]) -> None:
        """Write ``values`` of ``dtype`` where ``mask`` is true."""
        pointer = np.asarray(pointer, dtype=np.uint64)
        self.changes += 1
        values = np.broadcast_to(values, pointer.shape)
        if values.dtype != dtype:
            values = values.astype(dtype)
        for span in self.spans(pointer, mask, dtype.itemsize, "write"):
            if not self.check_writable(span):
                continue
            part = values if span.lanes is None else values[span.lanes]
            view = span.allocation.view(dtype)
            if span.allocation.shadow is not None:
                span.allocation.shadow.write(span.allocation, span.index, span.lanes, part, view)
            view[span.index] = part
            if span.allocation.shadow is not None:
                span.allocation.shadow.check_lane_conflicts(span.allocation, span.index, span.lanes, part, view)

    def check_writable(self, span: Span) -> bool:
        """Return True if the tensor is writable; report a finding if it is not."""
        if span.allocation.writable:
            return True
        lane = np.argwhere(span.lanes)[0] if span.lanes is not None else np.zeros(span.index.ndim, dtype=int)
        self.recorder.add(
            ReadOnlyWrite,
            f"write to {span.allocation.name}, a read-only array",
            "write",
            lane,
            variable=span.allocation.name,
            index=int(span.index.ravel()[0]),
            count=span.index.size,
        )
        return False
