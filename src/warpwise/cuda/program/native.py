"""Python bindings of the support library of programs: its structures (``support/program.h``) and functions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from warpwise.cuda.emulator import runtime
from warpwise.cuda.inline import native as inline

BAD_RANGE, MANAGED_ACCESS, DEVICE_ACCESS, HOST_FAULT, BAD_TENSOR_MAP, UNSUPPORTED_MAP = range(6)
DEVICE, MANAGED, PINNED, SYMBOL = range(4)
# A cooperative grid that fills the device has _SMS x 2,048 threads: the most that the emulator holds at once.
_SMS = 8
ERRORS = {"configuration": 9, "address": 700, "assert": 710, "misaligned": 716, "launch": 719}


class Trace(ctypes.Structure):
    """``ww_trace``: addresses one past a call or past the start of a faulting instruction, innermost first."""

    _fields_ = [("frames", ctypes.c_uint64 * 12), ("count", ctypes.c_int32)]


class Problem(ctypes.Structure):
    """``ww_problem``: an error of the host code."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("function", ctypes.c_char_p),
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("at", Trace),
    ]


class Block(ctypes.Structure):
    """``ww_program_block``: memory from cudaMalloc and similar functions."""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("memory", ctypes.c_int32),
        ("live", ctypes.c_int32),
        ("allocated", Trace),
        ("freed", Trace),
    ]


_Launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(inline.LaunchRecord))
_Problem = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Problem))
_Exit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


class Support:
    """The support library, loaded; a process loads it once. The callbacks run in the program's threads."""

    def __init__(
        self,
        path: Path,
        on_launch: Callable[[inline.LaunchRecord], int],
        on_problem: Callable[[Problem], int],
        on_exit: Callable[[int], int],
    ) -> None:
        runtime.handle().ww_resident_reserve()
        self._library: Any = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        self._callbacks = (
            _Launch(lambda pointer: on_launch(pointer.contents)),
            _Problem(lambda pointer: on_problem(pointer.contents)),
            _Exit(on_exit),
        )
        library = self._library
        library.ww_program_find.argtypes = [ctypes.c_uint64, ctypes.POINTER(Block)]
        library.ww_program_live.argtypes = [ctypes.POINTER(Block), ctypes.c_uint64]
        library.ww_program_live.restype = ctypes.c_uint64
        properties = inline.device_properties()
        properties.sms = _SMS
        library.ww_host_set_device_properties(ctypes.byref(properties))
        library.ww_host_on_launch(self._callbacks[0])
        library.ww_program_prepare(self._callbacks[1], self._callbacks[2])
        inline.use(library)

    def find(self, address: int) -> Block | None:
        """The block, live or freed, that an address is in or near."""
        block = Block()
        return block if self._library.ww_program_find(address, ctypes.byref(block)) else None

    def live(self) -> list[Block]:
        """The blocks that are not freed."""
        count = self._library.ww_program_live(None, 0)
        blocks = (Block * count)()
        self._library.ww_program_live(blocks, count)
        return list(blocks)

    def launched(self) -> None:
        """Managed memory is inaccessible to the host until the program synchronizes."""
        self._library.ww_program_launched()

    def set_error(self, code: int, sticky: bool) -> None:
        """Set the result of ``cudaGetLastError``; a sticky error is that of every later call, too."""
        self._library.ww_host_set_error(code, sticky)

    def failed(self) -> bool:
        """True after a sticky error."""
        return bool(self._library.ww_host_failed())

    def run(self, program: Any, arguments: Sequence[str]) -> None:
        """Call ``main``. Does not return: the process exits."""
        packed = (ctypes.c_char_p * (len(arguments) + 1))(*(word.encode() for word in arguments), None)
        self._library.ww_program_run(program.main, len(arguments), packed)
