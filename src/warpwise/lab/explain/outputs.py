"""Save the arguments of a launch, and compare the outputs of two runs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from warpwise.cuda.launch.arguments import Buffer, Scalar
from warpwise.cuda.launch.elements import element
from warpwise.lab.explain.model.explanation import Agreement

Arguments = Sequence[Buffer | Scalar]
_ALIGNMENT = 256
_POISON = 0xA5
_TF32_EPS = 2.0**-10


class ArgumentSnapshot:
    """A copy of the bytes of every buffer that a launch may write, made on construction."""

    def __init__(self, arguments: Arguments) -> None:
        self.spans = [(start, end, _copied(start, end)) for start, end in _written(arguments)]
        self._poisoned: dict[str, np.ndarray] = {}

    def rebased(self, arguments: Arguments) -> list[Buffer | Scalar]:
        """``arguments`` with their buffers moved into the copies, which live as long as this object.

        Buffers marked as outputs are filled with a poison pattern instead, so that elements never written are detected.
        """
        return [self._rebased(part) if isinstance(part, Buffer) else part for part in arguments]

    def _rebased(self, part: Buffer) -> Buffer:
        if part.output and part.nbytes:
            room = self._poisoned[part.name] = _room(part.address, part.nbytes)
            room.fill(_POISON)
            moved = room.ctypes.data - part.address
            return replace(part, address=part.address + moved, storage=part.storage + moved)
        for start, end, copy in self.spans:
            if part.nbytes and start <= part.address and part.address + part.nbytes <= end:
                moved = copy.ctypes.data - start
                return replace(part, address=part.address + moved, storage=part.storage + moved)
        return part

    def put_back(self) -> None:
        """Restore the saved bytes."""
        for start, _, copy in self.spans:
            ctypes.memmove(start, copy.ctypes.data, copy.nbytes)

    def bytes_of(self, part: Buffer) -> np.ndarray:
        """The saved bytes of a buffer, uint8; the poison pattern for an output that ``rebased`` filled."""
        if part.name in self._poisoned:
            return self._poisoned[part.name]
        for start, end, copy in self.spans:
            if start <= part.address and part.address + part.nbytes <= end:
                return copy[part.address - start : part.address - start + part.nbytes]
        return np.empty(0, dtype=np.uint8)


def _written(arguments: Arguments) -> list[tuple[int, int]]:
    """Address ranges of the buffers that may be written, merged with every buffer that overlaps them."""
    buffers = [part for part in arguments if isinstance(part, Buffer) and part.nbytes]
    spans: list[tuple[int, int, bool]] = []
    for part in sorted(buffers, key=lambda part: part.address):
        start, end, written = part.address, part.address + part.nbytes, not part.const and part.writable
        if spans and start < spans[-1][1]:
            start, end, written = spans[-1][0], max(end, spans[-1][1]), written or spans[-1][2]
            spans.pop()
        spans.append((start, end, written))
    return [(start, end) for start, end, written in spans if written]


def _copied(start: int, end: int) -> np.ndarray:
    """A copy of the bytes from ``start`` to ``end`` with the alignment of ``start``."""
    copy = _room(start, end - start)
    ctypes.memmove(copy.ctypes.data, start, end - start)
    return copy


def _room(address: int, nbytes: int) -> np.ndarray:
    """Allocate bytes with the alignment of ``address``."""
    room = np.empty(nbytes + _ALIGNMENT, dtype=np.uint8)
    shift = (address - room.ctypes.data) % _ALIGNMENT
    return room[shift : shift + nbytes]


def agreement(
    arguments: Arguments,
    before: ArgumentSnapshot,
    checked: ArgumentSnapshot,
    outputs: Mapping[str, np.ndarray],
    sampled: bool,
    adds: bool,
    tf32: bool = False,
) -> Agreement:
    """Compare the outputs of the executed machine code with those of the checked run.

    If the run was ``sampled``, only the elements that it changed are compared, and none if it ``adds`` by atomics.
    Floats may differ by rounding: g++ and NVRTC contract and order operations differently. If an argument has 16 bits
    or fewer, intermediate values may also have that type, and results may differ by one rounding of it. ``tf32``: the
    machine code multiplies float32 in TF32, as Triton's ``tl.dot`` does by default, and the checked run may not.
    """
    if sampled and adds:
        return Agreement("not compared", "only a sample of the blocks ran, and they add into the outputs")
    compared, names, opaque, unchanged = 0, [], [], []
    types = [_dtype(part) for part in arguments if isinstance(part, Buffer)]
    between = max(
        (torch.finfo(one).eps for one in types if one and one.is_floating_point and one.itemsize < 4), default=0.0
    )
    between = max(between, 2 * _TF32_EPS if tf32 else 0.0)  # both operands are truncated
    for part in arguments:
        if not isinstance(part, Buffer) or part.const or part.name not in outputs or not part.nbytes:
            continue
        machine, emulated, was = outputs[part.name].view(np.uint8), checked.bytes_of(part), before.bytes_of(part)
        if len(machine) != len(emulated):
            return Agreement(
                "no", f"'{part.name}' has {len(machine):,} bytes after one run, {len(emulated):,} after the other"
            )
        dtype = _dtype(part)
        if dtype is None:
            size = part.element_bytes
            chosen = _chosen(size, machine, was, sampled)
            looked_at = int(chosen.sum())
            if not np.array_equal(_elements(machine, size)[chosen], _elements(emulated, size)[chosen]):
                opaque.append(f"'{part.name}' ({part.element})")
                continue
        else:
            looked_at, wrong, where = _different(part.name, dtype, machine, emulated, was, sampled, between)
            if wrong:
                return Agreement("no", f"{where}; {wrong:,} of {looked_at:,} elements differ")
        if part.output or not np.array_equal(machine, was):  # buffers that were only read are not compared
            compared += looked_at
            names.append(f"'{part.name}'")
        elif part.writable:
            unchanged.append(f"'{part.name}'")
    if opaque:
        return Agreement(
            "not compared", f"{', '.join(opaque)} differ in bits, and rounding errors of such a type cannot be judged"
        )
    if not compared and sampled:
        return Agreement("not compared", "the sample of blocks changed nothing")
    if not compared and not unchanged:
        return Agreement("not compared", "the kernel has no argument to write")
    if not compared:
        return Agreement("yes", f"no element of {', '.join(unchanged)} changed, in this run and in the checked run")
    return Agreement(
        "yes", f"{compared:,} elements of {', '.join(names)} equal those of the checked run up to rounding"
    )


def _different(
    name: str,
    dtype: torch.dtype,
    machine: np.ndarray,
    emulated: np.ndarray,
    was: np.ndarray,
    sampled: bool,
    between: float,
) -> tuple[int, int, str]:
    """The number of elements compared, the number that differ, and the first difference as text.

    ``between`` is the eps of the coarsest float type of an intermediate result, 0 if none is narrower than float32.
    """
    size = dtype.itemsize
    whole = len(machine) - len(machine) % size
    chosen = _chosen(size, machine, was, sampled)
    if not sampled and np.array_equal(machine, emulated):
        return len(chosen), 0, ""
    got, expected = _values(machine[:whole], dtype), _values(emulated[:whole], dtype)
    with np.errstate(all="ignore"):
        same = got == expected
        if dtype.is_floating_point:
            finite = np.abs(expected[chosen & np.isfinite(expected)])
            scale = float(finite.max()) if finite.size else 0.0
            # A few roundings of 16-bit results; for float32, the error of a sum of thousands of terms in another order.
            tolerance = max((4 if size < 4 else 128) * torch.finfo(dtype).eps, between)
            same |= np.abs(got - expected) <= tolerance * (np.abs(expected) + scale)
            same |= np.isnan(got) & np.isnan(expected)
    bad = chosen & ~same
    if not bad.any():
        return int(chosen.sum()), 0, ""
    at = int(bad.argmax())
    where = f"{name}[{at}] is {got[at]:.9g} after the machine code, {expected[at]:.9g} after the checked run"
    return int(chosen.sum()), int(bad.sum()), where


def _chosen(size: int, machine: np.ndarray, was: np.ndarray, sampled: bool) -> np.ndarray:
    """True for each element of ``size`` bytes to compare: all, or those that a ``sampled`` run changed."""
    if not sampled:
        return np.ones(len(machine) // size, dtype=bool)
    return np.asarray(_elements(machine != was, size).any(axis=1))


def _elements(data: np.ndarray, size: int) -> np.ndarray:
    return data[: len(data) - len(data) % size].reshape(-1, size)


def _values(data: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Bytes as numbers: floats as float64, integers exactly."""
    made = torch.from_numpy(data.copy()).view(dtype)
    return made.to(torch.float64).numpy() if dtype.is_floating_point else made.numpy()


def _dtype(part: Buffer) -> torch.dtype | None:
    """The scalar dtype behind a buffer; None for a type of the user's own."""
    known = element(part.element)
    return next((dtype for dtype in known.dtypes if not dtype.is_complex), None) if known else None
