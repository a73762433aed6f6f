"""Python bindings of the support library: its structures (``warpwise_host/api.h``) and functions."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

from warpwise.cuda.launch.limits import target_profile
from warpwise.cuda.source.signature import demangle


class Argument(ctypes.Structure):
    """``ww_argument``: one argument of a launch."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("element", ctypes.c_char_p),
        ("bytes", ctypes.c_uint32),
        ("element_bytes", ctypes.c_uint32),
        ("kind", ctypes.c_int32),
        ("pointee_const", ctypes.c_int32),
    ]


class LaunchRecord(ctypes.Structure):
    """``ww_launch``: one ``kernel<<<grid, block, shared>>>(arguments...)``."""

    _fields_ = [
        ("extension", ctypes.c_char_p),
        ("instance", ctypes.c_char_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint64),
        ("shared_limit", ctypes.c_int64),
        ("cooperative", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("arguments", ctypes.POINTER(Argument)),
        ("count", ctypes.c_uint64),
        ("cluster", ctypes.c_uint32 * 3),
    ]


class Region(ctypes.Structure):
    """``ww_region``: a tracked block of memory, of a tensor or from cudaMalloc."""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("fresh", ctypes.c_int32),
        ("device", ctypes.c_int32),
    ]


class Symbol(ctypes.Structure):
    """``ww_symbol``: the host's shadow of a ``__device__`` or ``__constant__`` variable."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("constant", ctypes.c_int32),
        ("managed", ctypes.c_int32),
    ]


class _DeviceProperties(ctypes.Structure):
    """``cudaDeviceProp`` of ``include/cuda/cuda_runtime.h``."""

    _fields_ = [
        ("name", ctypes.c_char * 256),
        *((name, ctypes.c_size_t) for name in ("total", "shared", "shared_optin", "shared_per_sm", "constant")),
        *((name, ctypes.c_int) for name in ("registers", "registers_per_sm", "warp", "threads")),
        ("block", ctypes.c_int * 3),
        ("grid", ctypes.c_int * 3),
        *((name, ctypes.c_int) for name in ("major", "minor", "sms", "threads_per_sm", "blocks_per_sm", "cooperative")),
        *((name, ctypes.c_int) for name in ("l2", "clock", "memory_clock", "memory_bus")),
        *((name, ctypes.c_int) for name in ("map_host", "unified", "managed", "kernels", "managed_access", "engines")),
        ("unsupported", ctypes.c_int * 19),
        *((name, ctypes.c_size_t) for name in ("pitch", "texture", "texture_pitch", "surface")),
        ("limits", ctypes.c_int * 64),
        *((name, ctypes.c_int) for name in ("memory_pools", "clusters")),
        ("reserved_shared", ctypes.c_size_t),
        ("ids", ctypes.c_char * 24),
    ]


_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(LaunchRecord))
_MEMORY_BYTES = 80 << 30
_SMS = 132
_L2_BYTES = 50 << 20
_CLOCK_KHZ, _MEMORY_CLOCK_KHZ, _MEMORY_BUS_BITS = 1_980_000, 2_619_000, 5120
_library: ctypes.CDLL | None = None
_kept: list[object] = []


def load(path: Path, on_launch: Callable[[LaunchRecord], int]) -> None:
    """Load the support library, once per process; the extensions link to it."""
    if _library is not None:
        return
    library = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    library.ww_host_find_region.argtypes = [ctypes.c_uint64, ctypes.POINTER(Region)]
    library.ww_host_mark_used.argtypes = [ctypes.c_uint64]
    library.ww_host_device_properties_bytes.restype = ctypes.c_size_t
    if library.ww_host_device_properties_bytes() != ctypes.sizeof(_DeviceProperties):
        raise RuntimeError(f"{path} was built by another version of Warpwise: remove it; the next call builds it again")
    callback = _Callback(lambda pointer: on_launch(pointer.contents))
    _kept.append(callback)  # the library stores only the address
    library.ww_host_on_launch(callback)
    library.ww_host_set_device_properties(ctypes.byref(device_properties()))
    use(library)


def use(library: ctypes.CDLL) -> None:
    """Look up global variables in ``library``, a support library."""
    global _library
    library.ww_host_find_symbols.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)]
    library.ww_host_find_symbols.restype = ctypes.POINTER(Symbol)
    library.ww_host_symbol_is_set.argtypes = [ctypes.c_void_p]
    _library = library


def device_properties() -> _DeviceProperties:
    """The properties of the target's profile; the counts, sizes and clocks that it lacks are those of an H100."""
    profile = target_profile()
    major, minor = profile.compute_capability
    return _DeviceProperties(
        name=f"Warpwise emulator ({profile.name})".encode(),
        total=_MEMORY_BYTES,
        shared=profile.shared_per_block,
        shared_optin=profile.shared_per_block_optin,
        shared_per_sm=profile.shared_per_sm,
        constant=profile.constant_bytes,
        registers=profile.registers_per_block,
        registers_per_sm=profile.registers_per_sm,
        warp=profile.warp_size,
        threads=profile.threads_per_block,
        block=profile.block_dim,
        grid=profile.grid_dim,
        major=major,
        minor=minor,
        sms=_SMS,
        threads_per_sm=profile.threads_per_sm,
        blocks_per_sm=profile.blocks_per_sm,
        cooperative=1,
        l2=_L2_BYTES,
        clock=_CLOCK_KHZ,
        memory_clock=_MEMORY_CLOCK_KHZ,
        memory_bus=_MEMORY_BUS_BITS,
        map_host=1,
        unified=1,
        managed=1,
        kernels=1,
        managed_access=1,
        engines=3,
        pitch=2**31 - 1,
        texture=512,
        texture_pitch=32,
        surface=512,
        memory_pools=1,
        clusters=int(major >= 9),
        reserved_shared=profile.shared_reserved_per_block,
    )


def _loaded() -> ctypes.CDLL:
    if _library is None:
        raise RuntimeError("the support library of load_inline is not loaded")
    return _library


def enter() -> None:
    """Track the memory of this thread's new tensors until the matching ``leave``."""
    _loaded().ww_host_start_tracking()


def leave() -> None:
    _loaded().ww_host_stop_tracking()


def find(address: int) -> Region | None:
    """The tracked block that contains ``address`` or ends at it."""
    region = Region()
    return region if _loaded().ww_host_find_region(address, ctypes.byref(region)) else None


def used(address: int) -> None:
    """Mark the block at ``address`` as used by a kernel: it is no longer fresh."""
    _loaded().ww_host_mark_used(address)


def symbols(extension: str) -> dict[str, Symbol]:
    """The ``__device__`` and ``__constant__`` variables of an extension, keyed by their C++ names."""
    count = ctypes.c_uint64()
    table = _loaded().ww_host_find_symbols(extension.encode(), ctypes.byref(count))
    return {symbol.name.decode(): symbol for symbol in table[: count.value]} if table else {}


def is_set(symbol: Symbol) -> bool:
    """True if the host has written the variable by ``cudaMemcpyToSymbol``, or has its address."""
    return bool(_loaded().ww_host_symbol_is_set(symbol.data))


@functools.lru_cache(maxsize=1024)
def type_name(mangled: bytes) -> str:
    """The C++ name of a type from ``typeid(T).name()``."""
    return demangle(mangled.decode())
