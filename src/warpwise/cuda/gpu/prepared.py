"""A launch with a fixed grid, repeated with other parameters at the least cost to the host.

``cuLaunchKernelEx`` through ctypes takes a third of the time of the general launch: the configuration and the array of
parameters exist once, and a call writes only the parameters that differ.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any


class Parameters:
    """The parameters of a launch in one block of memory, and the array of their addresses for the driver.

    ``codes`` are ``struct`` formats; ``offsets`` and ``sizes`` are the compiled kernel's, in bytes.
    """

    def __init__(self, codes: Sequence[str], offsets: Sequence[int], sizes: Sequence[int]) -> None:
        layout, end = "=", 0
        for code, offset, size in zip(codes, offsets, sizes, strict=True):
            code = "Q" if code == "P" else code
            layout += f"{offset - end}x{code}"
            end = offset + struct.calcsize("=" + code)
            if end != offset + size:
                raise ValueError(f"a parameter of {size} bytes cannot be packed as {code!r}")
        self.codes, self._offsets, self._sizes = codes, offsets, sizes
        self._pack = struct.Struct(layout).pack_into
        self._memory = ctypes.create_string_buffer(max(end, 1))
        base = ctypes.addressof(self._memory)
        self._table = (ctypes.c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets))
        self.address = ctypes.addressof(self._table)

    def fill(self, values: Sequence[Any]) -> None:
        self._pack(self._memory, 0, *values)

    def copy(self) -> Parameters:
        """A block of memory of its own."""
        return Parameters(self.codes, self._offsets, self._sizes)

    def pointer(self, slot: int) -> ctypes.c_uint64:
        """The parameter in ``slot``, an address, as an object whose ``value`` can be set."""
        return ctypes.c_uint64.from_buffer(self._memory, self._offsets[slot])

    @property
    def memory(self) -> bytes:
        """The parameters as packed."""
        return self._memory.raw

    @property
    def offsets(self) -> Sequence[int]:
        """The offset of each parameter in ``memory``, in bytes."""
        return self._offsets

    def setter(self, slot: int) -> Callable[[Any], None]:
        """A function that writes the parameter in ``slot``."""
        pack = struct.Struct("=" + self.codes[slot].replace("P", "Q")).pack_into
        return functools.partial(pack, self._memory, self._offsets[slot])


class _Config(ctypes.Structure):
    """``CUlaunchConfig`` of cuda.h."""

    _fields_ = (
        *((f"{what}_{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )  # fmt: skip


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute`` of cuda.h, whose value is a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int * 16))


@functools.cache
def _attribute(kind: int) -> _Attribute:
    """The attribute ``kind`` with the value 1. Kept, since launches point to it."""
    return _Attribute(kind, 0, (1,))


def _config(shape: Sequence[int], attribute: int) -> _Config:
    config = _Config(*shape)
    if attribute:
        config.attributes, config.attribute_count = ctypes.addressof(_attribute(attribute)), 1
    return config


def launch(function: int, shape: Sequence[int], attribute: int, stream: int, parameters: Parameters) -> int:
    """Launch a kernel with one launch attribute (``Compiled.attribute``); returns the CUresult."""
    config = _config(shape, attribute)
    config.stream = stream
    code: int = launch_function()(ctypes.addressof(config), function, parameters.address, None)
    return code


@functools.cache
def launch_function() -> Any:
    """``cuLaunchKernelEx``, or None where the driver's library cannot be found by its name."""
    try:
        launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
    except (OSError, AttributeError):
        return None
    launch.argtypes, launch.restype = (ctypes.c_void_p,) * 4, ctypes.c_int
    return launch


class PreparedLaunch:
    """One kernel with its grid; the parameters whose ``values`` are None vary from call to call.

    ``shape`` is grid, block and shared memory in bytes; ``attribute`` is that of ``Compiled``.
    ``pointer`` and ``setter`` give what writes a parameter. ``call(stream)`` launches and returns the CUresult. Hold
    ``lock`` from the first write to the return of ``call``.
    """

    __slots__ = ("_config", "attribute", "call", "function", "lock", "parameters", "pointer", "setter", "shape")

    def __init__(
        self,
        parameters: Parameters,
        function: int,
        shape: Sequence[int],
        attribute: int,
        values: Sequence[Any],
    ) -> None:
        self.lock = threading.Lock()
        self.parameters = own = parameters.copy()
        self.function, self.shape, self.attribute = function, tuple(shape), attribute
        blank = (b"" if code.endswith("s") else 0 for code in parameters.codes)
        own.fill([zero if value is None else value for value, zero in zip(values, blank, strict=True)])
        self.pointer, self.setter = own.pointer, own.setter
        self._config = config = _config(shape, attribute)
        start, where, table = launch_function(), ctypes.addressof(config), own.address

        def call(stream: int) -> int:
            config.stream = stream
            code: int = start(where, function, table, None)
            return code

        self.call = call


def available() -> bool:
    """Whether launches can be prepared."""
    return launch_function() is not None
