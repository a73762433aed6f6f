"""Every tensor argument at an address range of its own, 2**44 bytes from the next, so that an address names its tensor.

A kernel's pointers are these made-up addresses: arithmetic on them keeps the tensor they came from, however far off they
end, and an access is carried out on the tensor's own memory only after every active lane was found inside its extent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from warpwise.cuda.errors import MisalignedAccess, OutOfBounds, ReadOnlyWrite
from warpwise.triton.findings import Recorder
from warpwise.triton.races import Shadow

Array = np.ndarray[Any, np.dtype[Any]]

_SLOT_BITS = 44
_FIRST_SLOT = 1 << 12  # above every address of a process, so that a real address is never taken for a made-up one
_ALIGNMENT = 256


def extent_bytes(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first element to the end of its last one."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


@dataclass
class Slot:
    """One tensor argument: its made-up base address and the memory behind it."""

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
        """The memory as elements of ``dtype``; a remainder too small for one is left out."""
        found = self.views.get(dtype)
        if found is None:
            whole = self.nbytes - self.nbytes % dtype.itemsize
            found = self.views[dtype] = self.memory[:whole].view(dtype)
        return found


@dataclass
class Span:
    """The active lanes of one access that fall into one tensor: ``index`` counts elements, ``lanes`` is None for all."""

    slot: Slot
    index: Array
    lanes: Array | None


def _bytes_of(tensor: torch.Tensor) -> Array:
    """The tensor's extent as bytes that share its memory."""
    size = extent_bytes(tensor)
    if size == 0:
        return np.empty(0, dtype=np.uint8)
    whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    start = tensor.storage_offset() * tensor.element_size()
    return whole.numpy()[start : start + size]


class Memory:
    """The tensors of one launch. ``watch``, if set, is called with every access, as ``spans`` is and before it is checked."""

    watch: ClassVar[Callable[[Memory, Array, Array | None, int, str], None] | None] = None

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.slots: dict[int, Slot] = {}

    def add(self, name: str, tensor: torch.Tensor, *, writable: bool = True, output: bool = False) -> Slot:
        """Give ``tensor`` its address range, aligned as its real address is."""
        number = _FIRST_SLOT + len(self.slots)
        base = (number << _SLOT_BITS) + (1 << (_SLOT_BITS - 1)) + tensor.data_ptr() % _ALIGNMENT
        slot = Slot(name, tensor, base, writable, output, _bytes_of(tensor))
        self.slots[number] = slot
        return slot

    def spans(self, pointer: Array, mask: Array | None, itemsize: int, what: str) -> Iterator[Span]:
        """The active lanes grouped by tensor, each lane inside its tensor; the others are reported and left out."""
        if mask is not None and mask.all():
            mask = None
        if Memory.watch is not None:
            Memory.watch(self, pointer, mask, itemsize, what)
        active = pointer.ravel() if mask is None else pointer[mask]
        if not active.size:
            return
        number = int(active[0]) >> _SLOT_BITS
        slot = self.slots.get(number)
        offset = active - np.uint64(slot.base if slot else 0)
        if (
            slot is not None
            and slot.nbytes >= itemsize
            and bool((offset <= np.uint64(slot.nbytes - itemsize)).all())
            and (itemsize == 1 or bool(self._aligned(offset, itemsize).all()))
        ):
            index = self._elements(offset, itemsize)
            yield Span(slot, index.reshape(pointer.shape) if mask is None else index, mask)
            return
        yield from self._split(pointer, mask, itemsize, what)

    @staticmethod
    def _elements(offset: Array, itemsize: int) -> Array:
        """Byte offsets as element numbers; an element's size is a power of two."""
        return (offset >> np.uint64(itemsize.bit_length() - 1)).view(np.int64)

    @staticmethod
    def _aligned(offset: Array, itemsize: int) -> Array:
        return (offset & np.uint64(itemsize - 1)) == 0

    def _split(self, pointer: Array, mask: Array | None, itemsize: int, what: str) -> Iterator[Span]:
        """As ``spans`` for pointers into several tensors, or outside of them."""
        active = np.ones(pointer.shape, dtype=bool) if mask is None else mask.copy()
        numbers = pointer >> np.uint64(_SLOT_BITS)
        for number in np.unique(numbers[active]):
            lanes = active & (numbers == number)
            slot = self.slots.get(int(number))
            if slot is None:
                self._report_stray(pointer, lanes, what)
                continue
            offset = pointer - np.uint64(slot.base)
            outside = lanes.copy() if slot.nbytes < itemsize else lanes & (offset > np.uint64(slot.nbytes - itemsize))
            if outside.any():
                self._report_outside(slot, offset, outside, itemsize, what)
            askew = lanes & ~outside & ~self._aligned(offset, itemsize)
            if askew.any():
                self._report_askew(slot, offset, askew, itemsize, what)
            inside = lanes & ~outside & ~askew
            if inside.any():
                yield Span(slot, self._elements(offset[inside], itemsize), inside)

    def _report_stray(self, pointer: Array, lanes: Array, what: str) -> None:
        lane = np.argwhere(lanes)[0]
        address = int(pointer[tuple(lane)])
        self.recorder.add(
            OutOfBounds,
            f"{what} of address {address:#x}, which was not made from any tensor argument",
            what,
            lane,
            count=int(lanes.sum()),
            hint="On the CPU a pointer must come from a tensor that is an argument of this launch.",
        )

    def _report_outside(self, slot: Slot, offset: Array, lanes: Array, itemsize: int, what: str) -> None:
        size = slot.tensor.element_size()
        elements = extent_bytes(slot.tensor) // size
        lane = np.argwhere(lanes)[0]
        byte = int(offset[tuple(lane)].astype(np.int64))
        index = byte // size
        shape = tuple(slot.tensor.shape)
        where = f"{slot.name}[{index}]" + (f" and byte {byte % size} of it" if byte % size else "")
        which = "before its start" if byte < 0 else f"{index - elements + 1} past its last element"
        self.recorder.add(
            OutOfBounds,
            f"{what} of {where}, {which}: {slot.name} has {elements} elements, shape {shape}",
            what,
            lane,
            variable=slot.name,
            index=index,
            size=elements,
            count=int(lanes.sum()),
            hint="" if byte < 0 else "Is a mask missing, or does it compare with the wrong bound?",
        )

    def _report_askew(self, slot: Slot, offset: Array, lanes: Array, itemsize: int, what: str) -> None:
        lane = np.argwhere(lanes)[0]
        byte = int(offset[tuple(lane)])
        self.recorder.add(
            MisalignedAccess,
            f"{what} of {itemsize} bytes at byte {byte} of {slot.name}, not a multiple of {itemsize}",
            what,
            lane,
            variable=slot.name,
            index=byte // slot.tensor.element_size(),
            count=int(lanes.sum()),
        )

    def described(self, pointer: Array, itemsize: int) -> str:
        """Addresses as a person reads them: the tensor's name and the element numbers."""
        slot = self.slots.get(int(pointer.ravel()[0]) >> _SLOT_BITS)
        if slot is None:
            return f"addresses {pointer}"
        index = (pointer - np.uint64(slot.base)).view(np.int64) // itemsize
        return f"{slot.name} + {index.item() if index.size == 1 else index}"

    def load(
        self, pointer: Array, mask: Array | None, other: Array | None, dtype: np.dtype[Any], atomic: bool
    ) -> Array:
        """The elements at ``pointer``; ``other`` (or 0) where ``mask`` is off."""
        pointer = np.asarray(pointer, dtype=np.uint64)
        result: Array | None = None
        for span in self.spans(pointer, mask, dtype.itemsize, "read"):
            if span.slot.shadow is not None:
                span.slot.shadow.read(span.slot, span.index, span.lanes, dtype.itemsize, atomic)
            values = span.slot.view(dtype)[span.index]
            if span.lanes is None:
                return values
            if result is None:
                result = self._filled(pointer, other, dtype)
            result[span.lanes] = values
        return self._filled(pointer, other, dtype) if result is None else result

    @staticmethod
    def _filled(pointer: Array, other: Array | None, dtype: np.dtype[Any]) -> Array:
        if other is None:
            return np.zeros(pointer.shape, dtype=dtype)
        return np.array(np.broadcast_to(other, pointer.shape), dtype=dtype)

    def store(self, pointer: Array, values: Array, mask: Array | None, dtype: np.dtype[Any]) -> None:
        """Write ``values`` of ``dtype`` where ``mask`` is on."""
        pointer = np.asarray(pointer, dtype=np.uint64)
        values = np.broadcast_to(values, pointer.shape)
        if values.dtype != dtype:
            values = values.astype(dtype)
        for span in self.spans(pointer, mask, dtype.itemsize, "write"):
            if not self.may_write(span):
                continue
            part = values if span.lanes is None else values[span.lanes]
            view = span.slot.view(dtype)
            if span.slot.shadow is not None:
                span.slot.shadow.write(span.slot, span.index, span.lanes, part, view)
            view[span.index] = part
            if span.slot.shadow is not None:
                span.slot.shadow.clash(span.slot, span.index, span.lanes, part, view)

    def may_write(self, span: Span) -> bool:
        """Whether the tensor may be written; if not, that is reported."""
        if span.slot.writable:
            return True
        lane = np.argwhere(span.lanes)[0] if span.lanes is not None else np.zeros(span.index.ndim, dtype=int)
        self.recorder.add(
            ReadOnlyWrite,
            f"write to {span.slot.name}, whose array is read-only",
            "write",
            lane,
            variable=span.slot.name,
            index=int(span.index.ravel()[0]),
            count=span.index.size,
        )
        return False
