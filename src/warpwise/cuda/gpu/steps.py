"""The launches of a recording: a CUDA kernel or a Triton kernel, with addresses that differ at each replay."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from warpwise.cuda.gpu.kernel import GpuKernel
from warpwise.cuda.gpu.tensor_map import encoded
from warpwise.cuda.launch.launcher import Launcher

_KEPT_MAPS = 256
NATIVE_CODES = "iIqQfd"  # struct formats of the varying scalars that C++ packs

Pointers = Sequence[tuple[int, int, int]]
"""(index of the parameter, index of the tensor, offset in bytes from the tensor's address)."""
Scalars = Sequence[tuple[int, int, Callable[[Any], Any]]]
"""(index of the parameter, index of the varying scalar, the function that checks and converts its value)."""


class NativeKernel(NamedTuple):
    """A CUDA launch as ``fastcall.Replay`` takes it: offsets are those of parameters in ``memory``, in bytes.

    ``shape`` is grid, block and shared memory in bytes; ``scalars`` have a ``struct`` format besides. ``attribute`` is
    that of ``Compiled``.
    """

    function: int
    shape: Sequence[int]
    attribute: int
    memory: bytes
    offsets: Sequence[int]
    pointers: Pointers
    maps: Sequence[tuple[int, int, int, Any]]
    scalars: Sequence[tuple[int, int, Callable[[Any], Any], str]]
    constants: Mapping[str, Any]


class NativeFunction(NamedTuple):
    """A launch by ``function(stream, values)`` as ``fastcall.Replay`` takes it."""

    function: Callable[[int, list[Any]], None]
    values: list[Any]
    pointers: Pointers
    scalars: Scalars


class CudaStep:
    """A CUDA launch: its launcher, the values of its parameters, and the pointers and tensor maps among them."""

    __slots__ = ("_constants", "_gpu", "_launcher", "_maps", "_pointers", "_prepared", "_scalars", "_values", "_writes")

    def __init__(
        self,
        kernel: GpuKernel,
        launcher: Launcher,
        values: list[Any],
        pointers: Pointers,
        maps: Sequence[tuple[int, int, int, Maps]],
        scalars: Scalars,
    ) -> None:
        self._gpu, self._launcher, self._values = kernel, launcher, values
        self._pointers, self._maps, self._scalars = tuple(pointers), tuple(maps), tuple(scalars)
        self._constants = launcher.kernel.module.constants.values
        self._prepared = made = kernel.prepare(launcher, values)
        self._writes: Any = None
        if made is not None:
            self._writes = (
                [(made.pointer(slot), tensor, offset) for slot, tensor, offset in pointers],
                [(made.setter(slot), tensor, offset, recipe) for slot, tensor, offset, recipe in maps],
                [(made.setter(slot), index, bind) for slot, index, bind in scalars],
            )

    def __call__(self, addresses: Sequence[int], stream: int, scalars: Sequence[Any]) -> None:
        prepared = self._prepared
        if prepared is None or self._constants:
            self._general(addresses, scalars)
            return
        pointers, maps, varying = self._writes
        with prepared.lock:
            for parameter, tensor, offset in pointers:
                parameter.value = addresses[tensor] + offset
            for write, tensor, offset, made in maps:
                write(made[addresses[tensor] + offset])
            for write, index, bind in varying:
                write(bind(scalars[index]))
            code = prepared.call(stream)
            if code:
                self._gpu.failed(code, self._launcher, lambda: prepared.call(stream))

    def native(self) -> NativeKernel | None:
        """The launch for C++, or None where it must be made in Python."""
        made = self._prepared
        if made is None:
            return None
        offsets, codes = made.parameters.offsets, made.parameters.codes
        scalars = [(offsets[slot], index, bind, codes[slot]) for slot, index, bind in self._scalars]
        if any(code not in NATIVE_CODES for *_, code in scalars):
            return None
        return NativeKernel(
            made.function,
            made.shape,
            made.attribute,
            made.parameters.memory,
            offsets,
            [(offsets[slot], tensor, shift) for slot, tensor, shift in self._pointers],
            [(offsets[slot], tensor, shift, maps) for slot, tensor, shift, maps in self._maps],
            scalars,
            self._constants,
        )

    def _general(self, addresses: Sequence[int], scalars: Sequence[Any]) -> None:
        """The launch of a kernel with constants, or with synchronisation."""
        values = self._values.copy()
        for slot, index, bind in self._scalars:
            values[slot] = bind(scalars[index])
        for slot, tensor, offset in self._pointers:
            values[slot] = addresses[tensor] + offset
        for slot, tensor, offset, made in self._maps:
            values[slot] = made[addresses[tensor] + offset]
        self._gpu.launch_values(self._launcher, values)


class TritonStep:
    """A Triton launch. It takes addresses in place of tensors, and an object with ``data_ptr`` in place of a
    descriptor's base.
    """

    __slots__ = ("_descriptors", "_launch", "_pointers", "_scalars", "_values")

    def __init__(
        self,
        launch: Callable[[int, list[Any]], None],
        values: list[Any],
        pointers: Pointers,
        descriptors: Sequence[tuple[int, int, int, Any]],
        scalars: Scalars,
    ) -> None:
        self._launch, self._values = launch, values
        self._pointers, self._descriptors, self._scalars = tuple(pointers), tuple(descriptors), tuple(scalars)

    def __call__(self, addresses: Sequence[int], stream: int, scalars: Sequence[Any]) -> None:
        values = self._values.copy()
        for slot, index, bind in self._scalars:
            values[slot] = bind(scalars[index])
        for slot, tensor, offset in self._pointers:
            values[slot] = addresses[tensor] + offset
        for slot, tensor, offset, descriptor in self._descriptors:
            values[slot] = described = copy.copy(descriptor)
            described.base = Address(addresses[tensor] + offset)
        self._launch(stream, values)

    def native(self) -> NativeFunction | None:
        """The launch for C++, or None where it must be made in Python."""
        if self._descriptors:
            return None
        return NativeFunction(self._launch, self._values, self._pointers, self._scalars)


class Address(int):
    """An address with the ``data_ptr`` method of a tensor."""

    def data_ptr(self) -> int:
        return self


class Maps(OrderedDict[int, bytes]):
    """A FIFO cache of tensor maps of one layout and box, by address."""

    def __init__(self, recipe: tuple[Any, ...]) -> None:
        super().__init__()
        self._recipe = recipe
        self._lock = threading.Lock()

    def __missing__(self, address: int) -> bytes:
        made = encoded(address, *self._recipe)
        with self._lock:
            self[address] = made
            if len(self) > _KEPT_MAPS:
                self.popitem(last=False)
        return made
