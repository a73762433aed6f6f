"""Build and load the interpreter's C++ runtime; the structures of its C interface."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

from warpwise import native

SOURCES = Path(__file__).parent / "runtime"
# -ffp-contract=off: each operation of a lane is one IEEE operation; an FMA is called explicitly.
# errno and the exception flags are unused; without them square roots and comparisons vectorise.
_FLAGS = (
    "-std=c++17", "-O3", "-g1", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fwrapv", "-fno-strict-aliasing", "-w",
)  # fmt: skip
_Index = ctypes.c_uint32 * 3
BANKS = 8


class Segment(ctypes.Structure):
    """``ww_machine_segment`` of core.cpp."""

    _fields_ = [("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("host", ctypes.c_void_p)]


class LaunchParams(ctypes.Structure):
    """``ww_machine_params`` of core.cpp."""

    _fields_ = [
        ("grid", _Index),
        ("block", _Index),
        ("cluster", _Index),
        ("architecture", ctypes.c_uint32),
        ("reserved_shared", ctypes.c_uint32),
        ("shared_bytes", ctypes.c_uint32),
        ("dynamic_shared", ctypes.c_uint32),
        ("local_bytes", ctypes.c_uint32),
        ("sm_count", ctypes.c_uint32),
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
        ("block_indices", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("block_count", ctypes.c_uint64),
        ("table", ctypes.c_void_p),
    ]


class RequestSample(ctypes.Structure):
    """``RequestSample`` of traffic.h."""

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


class RunResult(ctypes.Structure):
    """``ww_machine_result`` of core.cpp."""

    _fields_ = [
        ("fault", ctypes.c_uint32),
        ("instruction", ctypes.c_uint32),
        ("blocks_done", ctypes.c_uint64),
        ("sectors_read", ctypes.c_uint64),
        ("sectors_written", ctypes.c_uint64),
        ("l2_misses", ctypes.c_uint64),
        ("l2_rereads", ctypes.c_uint64),
        ("sample_count", ctypes.c_uint64),
        ("barriers", ctypes.c_double),
        ("warp_cycles", ctypes.c_double),
        ("warp_cycles_sum", ctypes.c_double),
        ("seconds", ctypes.c_double),
        ("samples", ctypes.POINTER(RequestSample)),
        ("message", ctypes.c_char * 1024),
    ]


@functools.lru_cache(maxsize=1)
def library() -> Path:
    """Return the path of the shared library; build it if the cache has none for these sources and this compiler.

    Raises ``FileNotFoundError`` if there is no C++ compiler, ``RuntimeError`` if compilation fails.
    """
    try:
        command = (*native.compiler(), *_FLAGS, *native.vector_flags())
    except native.NoCompiler as error:
        raise FileNotFoundError(f"machine: the SASS interpreter needs a C++17 compiler: {error}") from None
    return native.library(
        "machine/libwarpwise_machine",
        SOURCES,
        command,
        str,
        (),  # one translation unit per file
        lambda message: RuntimeError(f"{command[0]} cannot build the SASS interpreter:\n{message}"),
        "precompiled.h",
    )


@functools.lru_cache(maxsize=1)
def handle() -> ctypes.CDLL:
    """Load the runtime. Raises ``RuntimeError`` if the size of a structure here differs from that in C++."""
    from warpwise.machine.counts import FIELDS

    loaded = ctypes.CDLL(str(library()))
    sizes = (ctypes.c_uint64 * 4)()
    loaded.ww_machine_sizes(sizes)
    expected = [ctypes.sizeof(kind) for kind in (LaunchParams, RunResult, RequestSample)] + [len(FIELDS)]
    if list(sizes) != expected:
        raise RuntimeError(f"structure sizes: expected {expected} bytes (runtime.py), got {list(sizes)} (core.cpp)")
    loaded.ww_machine_load.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
    loaded.ww_machine_load.restype = ctypes.c_void_p
    loaded.ww_machine_unload.argtypes = [ctypes.c_void_p]
    loaded.ww_machine_unload.restype = None
    loaded.ww_machine_pipes.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    loaded.ww_machine_pipes.restype = None
    loaded.ww_machine_fidelity.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    loaded.ww_machine_fidelity.restype = None
    loaded.ww_machine_opcodes.argtypes = [ctypes.c_void_p]
    loaded.ww_machine_opcodes.restype = None
    loaded.ww_machine_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    loaded.ww_machine_run.restype = ctypes.c_int
    loaded.ww_machine_release.argtypes = [ctypes.c_void_p]
    loaded.ww_machine_release.restype = None
    return loaded
