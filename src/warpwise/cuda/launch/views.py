"""Arrays as arguments: address, extent and dtype, from PyTorch, NumPy and the CUDA array interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from warpwise.cuda.errors import ArgumentError
from warpwise.cuda.launch.extents import extent_bytes

CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Out:
    """An argument marked by ``out``."""

    value: Any


@dataclass(frozen=True, slots=True)
class Strided:
    """An argument marked by ``strided``."""

    value: Any


def out(array: Any) -> Out:
    """Mark an array, a tensor or a NumPy array, that the kernel writes entirely and does not read before.

    An emulated launch first sets all its bits, which is NaN, or -1 in a signed integer. A read before a write is then
    an ``UninitializedRead``, and an element that no thread writes an ``UnwrittenOutput``. On a GPU it has no effect.
    """
    return array if isinstance(array, Out) else Out(array)


def strided(array: Any) -> Strided:
    """Mark an array that need not be contiguous, because the kernel gets its strides as other arguments.

    The kernel may then access all memory from the array's first to its last element, the gaps between rows included.
    """
    return array if isinstance(array, Strided) else Strided(array)


class View(NamedTuple):
    """An array of any kind. ``dtype`` is None for records; ``storage`` is the address of the storage that it is a view
    of.
    """

    address: int
    nbytes: int
    itemsize: int
    dtype: torch.dtype | None
    storage: int
    writable: bool
    array: Any

    @property
    def described(self) -> str:
        return described(self.array)


class Slot(Protocol):
    """A parameter of a kernel; makes the error for an argument that does not fit."""

    reference: bool

    def error(self, came: str, advice: str = ...) -> ArgumentError: ...


def described(value: Any) -> str:
    """A description of ``value`` for a message: "a float64 tensor of shape (3, 4) on cpu"."""
    if isinstance(value, Out | Strided):
        return f"{type(value).__name__.lower()}({described(value.value)})"
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return (
            f"{'an' if dtype.startswith('i') else 'a'} {dtype} tensor of shape {tuple(value.shape)} on {value.device}"
        )
    if isinstance(value, np.ndarray):
        return f"a {value.dtype} NumPy array of shape {value.shape}"
    if isinstance(value, np.generic):
        return f"numpy.{type(value).__name__} {value}"
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 60 else shown[:57] + '...'}"


def of_tensor(value: torch.Tensor, spread: bool, slot: Slot) -> View:
    """A tensor's view; it must be dense, and contiguous unless ``spread`` (the kernel has its strides)."""
    if value.layout is not torch.strided:
        raise slot.error(
            f"{described(value)} with layout {value.layout}", "a kernel sees plain memory: pass x.to_dense()"
        )
    if value.is_neg() or value.is_conj():
        raise slot.error(
            f"{described(value)} that is only marked negated or conjugated", "pass x.resolve_neg().resolve_conj()"
        )
    itemsize = value.element_size()
    nbytes = value.numel() * itemsize
    if not value.is_contiguous():
        if not spread:
            raise slot.error(
                f"{described(value)} that is not contiguous (strides {value.stride()})",
                "a raw pointer has no strides: pass x.contiguous(), or cuda.strided(x) if the kernel takes strides",
            )
        nbytes = extent_bytes(value)
    if value.device.type == "meta":
        raise slot.error(described(value), "a meta tensor has no memory")
    return View(value.data_ptr(), nbytes, itemsize, value.dtype, value.untyped_storage().data_ptr(), True, value)


def of_any(value: Any, slot: Slot) -> View:
    """The view of a wrapped tensor, a NumPy array or an object with the CUDA array interface."""
    spread = type(value) is Strided
    if spread:
        value = value.value
    if isinstance(value, torch.Tensor):
        return of_tensor(value, spread, slot)
    if isinstance(value, np.ndarray):
        return _of_numpy(value, spread, slot)
    if hasattr(value, "__cuda_array_interface__"):
        return _of_cuda_interface(value, spread, slot)
    advice = "a kernel takes arrays through tensors, NumPy arrays or the CUDA array interface; None is a null pointer"
    if isinstance(value, int | float | np.generic):
        advice = "a pointer needs an array: are the arguments in the order of the kernel's parameters?"
        if slot.reference:
            advice = "the kernel reads a reference at an address of device memory: pass an array, or declare a value"
    elif isinstance(value, list | tuple):
        advice = "pass torch.tensor(...) with the element type"
    raise slot.error(described(value), advice)


def _of_numpy(value: np.ndarray, spread: bool, slot: Slot) -> View:
    if not value.dtype.isnative:
        raise slot.error(f"{described(value)} in non-native byte order", "pass x.astype(x.dtype.newbyteorder('='))")
    if value.dtype.hasobject:
        raise slot.error(described(value), "Python objects cannot be passed to a kernel")
    nbytes = value.nbytes
    if not value.flags.c_contiguous:
        if not spread or any(stride < 0 for stride in value.strides):
            raise slot.error(
                f"{described(value)} that is not contiguous (strides {value.strides} bytes)",
                "a raw pointer ignores strides: pass numpy.ascontiguousarray(x), "
                "or cuda.strided(x) if the kernel takes its strides and none is negative",
            )
        span = sum((size - 1) * stride for size, stride in zip(value.shape, value.strides, strict=True))
        nbytes = span + value.itemsize if nbytes else 0
    root = value
    while isinstance(root.base, np.ndarray):
        root = root.base
    address = value.__array_interface__["data"][0]
    storage = min(root.__array_interface__["data"][0], address)
    return View(address, nbytes, value.itemsize, _dtype_named(value.dtype.name), storage, value.flags.writeable, value)


def _of_cuda_interface(value: Any, spread: bool, slot: Slot) -> View:
    interface = value.__cuda_array_interface__
    dtype = np.dtype(interface["typestr"])
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    count = int(np.prod(shape, dtype=np.int64))
    nbytes = count * dtype.itemsize
    if strides is not None and nbytes:
        dense = [dtype.itemsize * int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]
        if any(size > 1 and stride != expected for size, stride, expected in zip(shape, strides, dense, strict=True)):
            if not spread:
                raise slot.error(
                    f"{type(value).__name__} of shape {shape} that is not contiguous", "pass a contiguous copy"
                )
            nbytes = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + dtype.itemsize
    address, read_only = interface["data"]
    return View(address, nbytes, dtype.itemsize, _dtype_named(dtype.name), address, not read_only, value)


def _dtype_named(name: str) -> torch.dtype | None:
    """The PyTorch dtype of a NumPy dtype's name ("float32", "bfloat16" of ml_dtypes); None for records and the like."""
    dtype = getattr(torch, name, None)
    return dtype if isinstance(dtype, torch.dtype) else None


def cuda_device(value: Any) -> torch.device:
    """The device of an object with the CUDA array interface: its ``device`` attribute, else the current device."""
    owner = getattr(value, "device", None)
    index = getattr(owner, "id", None)
    return torch.device("cuda", int(index) if index is not None else torch.cuda.current_device())
