"""Global variables of a kernel's library, and the module's constants copied into them."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import TYPE_CHECKING

from warpwise.cuda.emulator import runtime
from warpwise.cuda.launch.constants import Constants, wrong_size

if TYPE_CHECKING:
    from warpwise.cuda.emulator.compiler import Build

_APPLIED: dict[str, int] = {}
"""Version of the constants that each library holds. Modules of one source share a library, so the key is the library.
"""


def apply(constants: Constants, build: Build) -> None:
    """Write ``constants`` into the library of ``build``, which holds only the variables that its kernel uses.

    Raises ``ArgumentError`` if a value has another size than its variable.
    """
    library = str(build.library)
    if _APPLIED.get(library) == constants.version:
        return
    variables = library_variables(build.library)
    for name, data in constants.values.items():
        if name in variables:
            address, size = variables[name]
            if len(data) != size:
                raise wrong_size(build.file, name, len(data), size)
            ctypes.memmove(address, data, size)
            mark_set(build.library, address)
    _APPLIED[library] = constants.version


@functools.lru_cache(maxsize=4096)
def mark_set(library: Path, address: int) -> None:
    """Record that the host has set the ``__constant__`` variable at ``address`` of a kernel's library.

    A library with variables has one kernel.
    """
    entry = ctypes.cast(ctypes.CDLL(str(library)).ww_entry_0, ctypes.c_void_p).value
    runtime.handle().ww_constant_is_set(ctypes.c_uint64(entry or 0), ctypes.c_uint64(address))


class _Global(ctypes.Structure):
    """``ww_global`` of abi.h: a variable of the kernel's library."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("element_bytes", ctypes.c_uint32),
        ("constant", ctypes.c_int),
    ]


@functools.lru_cache(maxsize=256)
def library_variables(path: Path) -> dict[str, tuple[int, int]]:
    """Address and size in bytes of the global variables of a kernel's library, by qualified C++ name.

    The caller may write all of them, also those that the kernel declares ``const``.
    """
    library = ctypes.CDLL(str(path))
    library.ww_entry_globals.restype = ctypes.POINTER(_Global)
    count = ctypes.c_size_t()
    table = library.ww_entry_globals(ctypes.byref(count))
    found = {entry.name.decode(): (entry.address, entry.bytes) for entry in table[: count.value] if entry.name}
    for address, size in found.values():
        runtime.handle().ww_make_writable(ctypes.c_uint64(address), ctypes.c_uint64(size))
    return found
