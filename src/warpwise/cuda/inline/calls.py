"""Calls into an extension built for the CPU: tracks the memory that kernels may access, and runs their launches."""

from __future__ import annotations

import ctypes
import functools
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
from warpwise.cuda.launch.extents import byte_range, in_host_memory, live_tensors

_BY_VALUE, _POINTER, _OBJECT = range(3)
_WORD = 8
_LOWEST_ADDRESS = 1 << 16  # smaller numbers in an object are sizes and strides
_POISON = b"\xff\x7f"  # of support/memory.h


class Regions:
    """The address ranges (first byte, end) of the tensors that are arguments of a call."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._known = sorted({byte_range(tensor) for tensor in tensors if in_host_memory(tensor)})

    def find(self, address: int) -> tuple[int, int, bool] | None:
        """The first byte, end and freshness of the memory that contains ``address``, or None.

        Memory is fresh if it was allocated during the call and no kernel has been launched on it.
        """
        for start, end in self._known:
            if start <= address < end:
                return self._merge_overlapping(start, end)
        block = native.find(address)
        if block is not None:
            return block.address, block.address + block.bytes, bool(block.fresh)
        return next(((start, end, False) for start, end in self._known if address == end), None)

    def _merge_overlapping(self, start: int, end: int) -> tuple[int, int, bool]:
        """The union of the ranges that overlap: a kernel may access one view through a pointer to another."""
        for first, last in self._known:
            if first < end and start < last:
                start, end = min(first, start), max(last, end)
        return start, end, False


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(value.values())


class Call:
    """One call from Python into an extension. ``error`` is the exception of a launch during the call."""

    def __init__(self, arguments: Iterable[Any]) -> None:
        self.regions = Regions(_tensors(arguments))
        self.error: BaseException | None = None
        self._live_tensors: list[tuple[int, int]] | None = None

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
                f"{where}: {record.shared_bytes:,} bytes of dynamic shared memory; more than "
                f"{profile.shared_per_block:,} require "
                "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) before the launch"
            )
        cluster = tuple(record.cluster)
        limits.check_cluster(where, grid, cluster)
        launch = ExtensionLaunch(record.instance, grid, block, record.shared_bytes, cluster)
        for position in range(record.count):
            self._bind_argument(where, position, record.arguments[position], launch)
        findings = extension.run(name, launch, profile)
        for buffer in launch.buffers():
            native.used(buffer.address)
        # Several launches together may fill a tensor from torch::empty.
        findings = [finding for finding in findings if finding.kind is not UnwrittenOutput]
        if findings:
            raise findings[0].error()

    def _bind_argument(self, where: str, position: int, argument: native.Argument, launch: ExtensionLaunch) -> None:
        name = argument.name.decode() if argument.name else f"#{position}"
        data = ctypes.string_at(argument.data, argument.bytes)
        if argument.kind == _POINTER:
            pointee = Pointee(
                name, native.type_name(argument.element), argument.element_bytes, bool(argument.pointee_const)
            )
            address = int.from_bytes(data, "little")
            buffer = self._buffer_at(address, pointee, launch) if address else pointee.buffer(0, 0, 0)
            if buffer is None:
                raise ArgumentError(
                    f"{where}: argument '{name}' is the pointer {address:#x}, which is not in a tensor that the call "
                    "received or allocated, and not in memory from cudaMalloc: pass the tensor to the function"
                )
            launch.arguments.append(buffer)
            return
        launch.arguments.append(Scalar(name, data))
        if argument.kind == _OBJECT:
            pointee = _pointee_of(name, native.type_name(argument.element))
            for offset in range(0, len(data) - _WORD + 1, _WORD):
                address = int.from_bytes(data[offset : offset + _WORD], "little")
                buffer = self._buffer_at(address, pointee, launch) if address >= _LOWEST_ADDRESS else None
                if buffer is not None:
                    launch.pointers.append((position, offset, buffer))

    def _buffer_at(self, address: int, pointee: Pointee, launch: ExtensionLaunch) -> Buffer | None:
        """The memory from ``address`` to the end of its tensor or block. None if the address is in neither."""
        found = self.regions.find(address) or self._storage_of_live_tensor(address)
        if found is None:
            return None
        start, end, fresh = found
        output = fresh and _is_poisoned(start, end)
        if address > start:  # the kernel may index backwards: bind the whole range, which shares the arena's slot
            launch.whole_tensors.append(pointee.buffer(start, end, start, output))
        return pointee.buffer(address, end, start, output)

    def _storage_of_live_tensor(self, address: int) -> tuple[int, int, bool] | None:
        """The live tensor that contains ``address``: for calls of operators, which have no wrapper."""
        if self._live_tensors is None:
            self._live_tensors = [byte_range(tensor) for tensor in live_tensors()]
        return next(((start, end, False) for start, end in self._live_tensors if start <= address < end), None)


@dataclass(frozen=True)
class Pointee:
    """The declared type of a pointer's target."""

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


# The element type in an accessor's type name: `...Accessor<float const, 2ul, ...>` or `..., float const, 2ul, ...`.
_ACCESSOR = re.compile(r"[<,] ?([\w:]+(?: [\w:]+)*?)( const)?, \d+ul\b")


def _pointee_of(name: str, type_name: str) -> Pointee:
    """The element type of an accessor; bytes for any other object."""
    match = _ACCESSOR.search(type_name) if "Accessor" in type_name else None
    known = element_type(match[1]) if match else None
    if match is None or known is None:
        return Pointee(name, "char", 2 if match else 1, bool(match and match[2]))
    return Pointee(name, known.name, known.bytes, bool(match[2]))


def _is_poisoned(start: int, end: int) -> bool:
    """True if all bytes still hold the allocator's poison pattern, so the memory is uninitialised."""
    size = end - start
    return ctypes.string_at(start, size) == (_POISON * (size // len(_POISON) + 1))[:size]


# ---- from Python into the extension, and back for each launch

_calls = threading.local()


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``function`` of an extension: track its tensors, and raise the exceptions of its launches."""

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
    """The support library's callback for a launch. Returns 0, or 1 after storing the exception in the current call."""
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
