"""The emulator's C++ runtime: built once into the cache, loaded once a process."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

from warpwise import native
from warpwise.cuda.emulator import toolchain
from warpwise.cuda.errors import CompileError

SOURCES = Path(__file__).parent / "runtime"
_FLAGS = (
    "-std=c++17",
    "-O2",
    "-g1",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-plt",
    "-pthread",
    "-w",
    "-U_FORTIFY_SOURCE",  # fibers leave signal handlers by switching stacks
)

_Index = ctypes.c_uint32 * 3


class Side(ctypes.Structure):
    _fields_ = [
        ("block", _Index),
        ("thread", _Index),
        ("action", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("pc", ctypes.c_uint64),
        ("label", ctypes.c_char * 32),
    ]


class Report(ctypes.Structure):
    """``ww::Report`` of report.h."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("space", ctypes.c_int32),
        ("access", Side),
        ("other", Side),
        ("has_other", ctypes.c_int32),
        ("access_bytes", ctypes.c_uint32),
        ("element_bytes", ctypes.c_uint32),
        ("index", ctypes.c_int64),
        ("elements", ctypes.c_int64),
        ("address", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("passed_operation", ctypes.c_uint64),
        ("passed_access", ctypes.c_uint64),
        ("callers", ctypes.c_uint64 * 16),
        ("inner", ctypes.c_uint32 * 2),
        ("variable", ctypes.c_char * 64),
        ("message", ctypes.c_char * 320),
        ("hint", ctypes.c_char * 160),
    ]


class Argument(ctypes.Structure):
    """``ww_argument`` of api.cpp."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("host", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("storage", ctypes.c_uint64),
        ("element_bytes", ctypes.c_uint32),
        ("pointer", ctypes.c_uint8),
        ("constant", ctypes.c_uint8),
        ("output", ctypes.c_uint8),
        ("writable", ctypes.c_uint8),
    ]


class LaunchRequest(ctypes.Structure):
    """``ww_launch`` of api.cpp."""

    _fields_ = [
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("argument_count", ctypes.c_uint32),
        ("grid", _Index),
        ("block", _Index),
        ("cluster", _Index),
        ("dynamic_shared", ctypes.c_uint64),
        ("shared_limit", ctypes.c_uint64),
        ("check_any", ctypes.c_uint32),
        ("check_races", ctypes.c_uint32),
        ("check_uninitialised", ctypes.c_uint32),
        ("check_barrier_lines", ctypes.c_uint32),
        ("order", ctypes.c_uint32),
        ("seed", ctypes.c_uint32),
        ("max_findings", ctypes.c_uint32),
        ("check_numbers", ctypes.c_uint32),
        ("timeout", ctypes.c_double),
        ("watched", ctypes.c_uint64),
    ]


class Result(ctypes.Structure):
    """``ww_result`` of api.cpp."""

    _fields_ = [
        ("reports", ctypes.POINTER(Report)),
        ("report_count", ctypes.c_uint64),
        ("text", ctypes.c_void_p),
        ("text_bytes", ctypes.c_uint64),
        ("text_dropped", ctypes.c_uint64),
        ("blocks", ctypes.c_uint64),
        ("barriers", ctypes.c_uint64),
        ("load_bias", ctypes.c_uint64),
        ("seconds", ctypes.c_double),
        ("interrupted", ctypes.c_int32),
        ("has_last_write", ctypes.c_int32),
        ("last_write", Side),
    ]


@functools.lru_cache(maxsize=1)
def library() -> Path:
    """Return the runtime as a shared library, built on a miss in a few seconds.

    Raises ``CompileError`` if there is no C++ compiler or if it fails.
    """
    command = (*toolchain.command(), *_FLAGS)
    return native.library(
        "emulator/libwarpwise_runtime",
        SOURCES,
        command,
        _unit_of,
        ("-ldl", "-lrt"),
        lambda text: CompileError(f"{command[0]} cannot compile the emulator's runtime:\n{text}"),
    )


def _unit_of(file: str) -> str:
    """Return the translation unit of a file: ptx.cpp, or all others together, whose hot paths inline across files."""
    return "ptx" if file == "ptx.cpp" else "rest"


@functools.lru_cache(maxsize=1)
def handle() -> ctypes.CDLL:
    """Return the loaded runtime. Raises ``RuntimeError`` if the size of a structure differs from that in this file."""
    loaded = ctypes.CDLL(str(library()), mode=ctypes.RTLD_GLOBAL)
    sizes = (ctypes.c_size_t * 4)()
    loaded.ww_structure_sizes(sizes)
    ours = [ctypes.sizeof(kind) for kind in (Argument, LaunchRequest, Result, Report)]
    if list(sizes) != ours:
        raise RuntimeError(f"the emulator's runtime has structures of {list(sizes)} bytes, runtime.py of {ours}")
    loaded.ww_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    loaded.ww_run.restype = ctypes.c_int
    loaded.ww_release_result.argtypes = [ctypes.c_void_p]
    loaded.ww_release_result.restype = None
    return loaded
