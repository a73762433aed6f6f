"""Calls into an extension built for the CPU: which memory its kernels may touch, and each launch handed to the emulator."""

from __future__ import annotations

import ctypes
import functools
import gc
import re
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from warpwise.cuda.errors import ArgumentError, LaunchError, UnwrittenOutput
from warpwise.cuda.inline import native
from warpwise.cuda.inline.device import Extension, ExtensionLaunch
from warpwise.cuda.launch import limits
from warpwise.cuda.launch.arguments import Buffer, Scalar
from warpwise.cuda.launch.elements import element as element_type

_BY_VALUE, _POINTER, _OBJECT = range(3)
_WORD = 8
_LOWEST_ADDRESS = 1 << 16  # smaller numbers in an object are sizes and strides
_POISON = b"\xff\x7f"  # of support/memory.h


class Regions:
    """Stretches of memory that a call was given, as (first byte, end), the views of one tensor each."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._known = sorted({extent for tensor in tensors if (extent := _extent(tensor)) is not None})

    def find(self, address: int) -> tuple[int, int, bool] | None:
        """First byte, end and freshness of what ``address`` points into, or None. Fresh memory has only been allocated."""
        for start, end in self._known:
            if start <= address < end:
                return self._joined(start, end)
        block = native.find(address)
        if block is not None:
            return block.address, block.address + block.bytes, bool(block.fresh)
        return next(((start, end, False) for start, end in self._known if address == end), None)

    def _joined(self, start: int, end: int) -> tuple[int, int, bool]:
        """Views that overlap are one stretch: a kernel may reach one through the other's pointer."""
        for first, last in self._known:
            if first < end and start < last:
                start, end = min(first, start), max(last, end)
        return start, end, False


def _extent(tensor: torch.Tensor) -> tuple[int, int] | None:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.numel() == 0:
        return None
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + span * tensor.element_size()


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(value.values())


class Call:
    """One call from Python into an extension. ``error`` is what a launch raised on the way."""

    def __init__(self, arguments: Iterable[Any]) -> None:
        self.regions = Regions(_tensors(arguments))
        self.error: BaseException | None = None
        self._live: list[tuple[int, int]] | None = None

    def launch(self, record: native.LaunchRecord) -> None:
        extension = Extension.of(record.extension.decode())
        name = extension.instance(record.instance)
        where = f"{name} (launched at {extension.file}:{record.line})" if record.line else name
        profile = limits.target_profile()
        kernel = extension.module[name]
        grid, block = tuple(record.grid), tuple(record.block)
        bounds = kernel.declaration.launch_bounds if kernel.declaration else None
        limits.check_launch(where, grid, block, profile, bounds)
        limits.check_shared(where, 0, record.shared_bytes, profile)
        if record.shared_bytes > max(profile.shared_per_block, record.shared_limit):
            raise LaunchError(
                f"{where}: {record.shared_bytes:,} bytes of dynamic shared memory; more than {profile.shared_per_block:,} need "
                "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) before the launch"
            )
        launch = ExtensionLaunch(grid, block, record.shared_bytes)
        for position in range(record.count):
            self._bind(where, position, record.arguments[position], launch)
        findings = extension.run(name, launch, profile)
        for buffer in launch.buffers():
            native.used(buffer.address)
        # A tensor from torch::empty may be filled by several launches, so no single one need write it whole.
        findings = [finding for finding in findings if finding.kind is not UnwrittenOutput]
        if findings:
            raise findings[0].error()

    def _bind(self, where: str, position: int, argument: native.Argument, launch: ExtensionLaunch) -> None:
        name = argument.name.decode() if argument.name else f"#{position}"
        data = ctypes.string_at(argument.data, argument.bytes)
        if argument.kind == _POINTER:
            pointee = Pointee(
                name, native.type_name(argument.element), argument.element_bytes, bool(argument.pointee_const)
            )
            address = int.from_bytes(data, "little")
            buffer = self._buffer(address, pointee, launch) if address else pointee.buffer(0, 0, 0)
            if buffer is None:
                raise ArgumentError(
                    f"{where}: argument '{name}' is the pointer {address:#x}, which is in no tensor that this call was given or "
                    "made and in no memory from cudaMalloc: pass the tensor to the function"
                )
            launch.arguments.append(buffer)
            return
        launch.arguments.append(Scalar(name, data))
        if argument.kind == _OBJECT:
            pointee = _pointee_of(name, native.type_name(argument.element))
            for offset in range(0, len(data) - _WORD + 1, _WORD):
                address = int.from_bytes(data[offset : offset + _WORD], "little")
                buffer = self._buffer(address, pointee, launch) if address >= _LOWEST_ADDRESS else None
                if buffer is not None:
                    launch.pointers.append((position, offset, buffer))

    def _buffer(self, address: int, pointee: Pointee, launch: ExtensionLaunch) -> Buffer | None:
        """What a pointer reaches: from where it points to the end of its tensor or block. None for unknown memory."""
        found = self.regions.find(address) or self._storage_of_live_tensor(address)
        if found is None:
            return None
        start, end, fresh = found
        output = fresh and _untouched(start, end)
        if address > start:  # it may be followed backwards: the whole stretch comes along and shares the slot
            launch.wholes.append(pointee.buffer(start, end, start, output))
        return pointee.buffer(address, end, start, output)

    def _storage_of_live_tensor(self, address: int) -> tuple[int, int, bool] | None:
        """For calls that do not come through a wrapped function, and tensors that C++ took from elsewhere."""
        if self._live is None:
            tensors = (thing for thing in gc.get_objects() if type(thing) is torch.Tensor)
            self._live = [extent for tensor in tensors if (extent := _extent(tensor)) is not None]
        return next(((start, end, False) for start, end in self._live if start <= address < end), None)


@dataclass(frozen=True)
class Pointee:
    """What a pointer points to, as its declaration tells."""

    name: str
    element: str
    bytes: int
    const: bool

    def buffer(self, address: int, end: int, storage: int, output: bool = False) -> Buffer:
        return Buffer(
            self.name,
            address,
            end - address,
            self.bytes,
            self.element,
            self.const,
            output,
            storage,
            writable=address != 0,
        )


# The element type in the name of PyTorch's accessors: `...Accessor<float const, 2ul, ...>` or `..., float const, 2ul, ...`.
_ACCESSOR = re.compile(r"[<,] ?([\w:]+(?: [\w:]+)*?)( const)?, \d+ul\b")


def _pointee_of(name: str, type_name: str) -> Pointee:
    """What an accessor's elements are; single bytes for any other object."""
    match = _ACCESSOR.search(type_name) if "Accessor" in type_name else None
    known = element_type(match[1]) if match else None
    if match is None or known is None:
        return Pointee(name, "char", 2 if match else 1, bool(match and match[2]))
    return Pointee(name, known.name, known.bytes, bool(match[2]))


def _untouched(start: int, end: int) -> bool:
    """Whether the bytes are as the allocator left them: memory that a kernel must not read before it is written."""
    size = end - start
    return ctypes.string_at(start, size) == (_POISON * (size // len(_POISON) + 1))[:size]


# ---- from Python into the extension, and back for each launch

_calls = threading.local()


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of an extension with its tensors known to the kernels that it launches, and their errors raised."""

    @functools.wraps(function, updated=())
    def call(*args: Any, **named: Any) -> Any:
        outer = getattr(_calls, "current", None)
        mine = _calls.current = Call((*args, *named.values()))
        native.enter()
        try:
            return function(*args, **named)
        except Exception:
            if mine.error is not None:
                raise mine.error from None
            raise
        finally:
            native.leave()
            _calls.current = outer

    return call


def on_launch(record: native.LaunchRecord) -> int:
    """What the support library calls for each launch: 0, or 1 with the error kept for when Python is reached again."""
    call = getattr(_calls, "current", None)
    found = call or Call(())
    try:
        found.launch(record)
        return 0
    except BaseException as error:  # noqa: BLE001 - it is raised again once the extension's C++ frames are unwound
        found.error = error
        if call is None:
            traceback.print_exception(error)
        return 1
