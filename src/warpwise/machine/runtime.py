"""The interpreter's C++ runtime: built once into the cache, loaded once a process."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

from warpwise import native

SOURCES = Path(__file__).parent / "runtime"
# Each arithmetic operation of a lane is one IEEE operation or an explicit fma: no contraction.
# Neither errno nor the exception flags are read; keeping them would prevent vectorised square roots and comparisons.
_FLAGS = ("-std=c++17", "-O3", "-g1", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fno-strict-aliasing", "-w")  # fmt: skip
_Index = ctypes.c_uint32 * 3
BANKS = 8


class Segment(ctypes.Structure):
    """``ww_machine_segment`` of core.cpp: bytes of global memory that belong together."""

    _fields_ = [("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("host", ctypes.c_void_p)]


class Launch(ctypes.Structure):
    """``ww_machine_launch`` of core.cpp."""

    _fields_ = [
        ("grid", _Index),
        ("block", _Index),
        ("architecture", ctypes.c_uint32),
        ("reserved_shared", ctypes.c_uint32),
        ("shared_bytes", ctypes.c_uint32),
        ("dynamic_shared", ctypes.c_uint32),
        ("local_bytes", ctypes.c_uint32),
        ("multiprocessors", ctypes.c_uint32),
        ("resident_blocks", ctypes.c_uint32),
        ("cooperative", ctypes.c_uint32),
        ("may_wait", ctypes.c_uint32),
        ("segment_count", ctypes.c_uint32),
        ("l1_bytes", ctypes.c_uint64),
        ("l2_bytes", ctypes.c_uint64),
        ("timeout", ctypes.c_double),
        ("segments", ctypes.POINTER(Segment)),
        ("banks", ctypes.c_void_p * BANKS),
        ("bank_bytes", ctypes.c_uint64 * BANKS),
        ("block_numbers", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("block_count", ctypes.c_uint64),
        ("table", ctypes.c_void_p),
    ]


class Kept(ctypes.Structure):
    """``KeptRequest`` of traffic.h."""

    _fields_ = [
        ("instruction", ctypes.c_uint32),
        ("warp", ctypes.c_uint32),
        ("lanes", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("block", _Index),
        ("sectors", ctypes.c_uint32),
        ("wavefronts", ctypes.c_uint32),
        ("unused", ctypes.c_uint32 * 7),
        ("addresses", ctypes.c_uint64 * 32),
    ]


class Result(ctypes.Structure):
    """``ww_machine_result`` of core.cpp."""

    _fields_ = [
        ("fault", ctypes.c_uint32),
        ("instruction", ctypes.c_uint32),
        ("blocks_done", ctypes.c_uint64),
        ("sectors_read", ctypes.c_uint64),
        ("sectors_written", ctypes.c_uint64),
        ("l2_misses", ctypes.c_uint64),
        ("l2_rereads", ctypes.c_uint64),
        ("kept_count", ctypes.c_uint64),
        ("barriers", ctypes.c_double),
        ("warp_cycles", ctypes.c_double),
        ("warp_cycles_sum", ctypes.c_double),
        ("seconds", ctypes.c_double),
        ("kept", ctypes.POINTER(Kept)),
        ("message", ctypes.c_char * 1024),
    ]


@functools.lru_cache(maxsize=1)
def library() -> Path:
    """Return the runtime as a shared library, built on a miss.

    Raises ``FileNotFoundError`` if there is no C++ compiler, ``RuntimeError`` if it fails.
    """
    try:
        command = (*native.compiler(), *_FLAGS, *native.vector_flags())
    except native.NoCompiler as error:
        raise FileNotFoundError(f"machine: the interpreter of machine code needs a C++17 compiler: {error}") from None
    return native.library(
        "machine/libwarpwise_machine", SOURCES, command, str, (),  # one translation unit a file
        lambda text: RuntimeError(f"{command[0]} cannot build the interpreter of machine code:\n{text}"), "precompiled.h",
    )  # fmt: skip


@functools.lru_cache(maxsize=1)
def handle() -> ctypes.CDLL:
    """Return the loaded runtime. Raises ``RuntimeError`` if the size of a structure differs from that in this file."""
    from warpwise.machine.counts import FIELDS

    loaded = ctypes.CDLL(str(library()))
    sizes = (ctypes.c_uint64 * 4)()
    loaded.ww_machine_sizes(sizes)
    ours = [ctypes.sizeof(kind) for kind in (Launch, Result, Kept)] + [len(FIELDS)]
    if list(sizes) != ours:
        raise RuntimeError(f"the interpreter's structures have {list(sizes)} bytes, those of runtime.py {ours}")
    loaded.ww_machine_load.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
    loaded.ww_machine_load.restype = ctypes.c_void_p
    loaded.ww_machine_unload.argtypes = [ctypes.c_void_p]
    loaded.ww_machine_unload.restype = None
    loaded.ww_machine_units.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    loaded.ww_machine_units.restype = None
    loaded.ww_machine_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    loaded.ww_machine_run.restype = ctypes.c_int
    loaded.ww_machine_release.argtypes = [ctypes.c_void_p]
    loaded.ww_machine_release.restype = None
    return loaded
