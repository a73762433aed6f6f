"""Machine code executed warp by warp on the CPU, and counted: what every instruction of a launch did.

``load_program`` reads a kernel of a cubin through nvdisasm; ``run`` executes a launch of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warpwise.machine.errors import LaunchTimeout, MachineFault, Unsupported

if TYPE_CHECKING:
    from warpwise.device.profiles import Profile
    from warpwise.machine.counts import Counts
    from warpwise.machine.program import Program

__all__ = [
    "Counts",
    "LaunchTimeout",
    "MachineFault",
    "Program",
    "Unsupported",
    "load_program",
    "run",
    "units",
    "unsupported",
]
_LAZY = {"Counts": "warpwise.machine.counts", "Program": "warpwise.machine.program"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_program(cubin: bytes, symbol: str) -> Program:
    """The machine code of the kernel ``symbol``, read once a process; nvdisasm's part of it once and for all.

    Raises ``KeyError`` for a symbol that the cubin does not hold, ``ValueError`` for no cubin, ``FileNotFoundError``
    saying what to install where there is no nvdisasm.
    """
    key = (hash(cubin), len(cubin), symbol)
    program = _PROGRAMS.get(key)
    if program is None:
        from warpwise.machine import sass
        from warpwise.machine.disassemble import disassemble

        if len(_PROGRAMS) >= _KEPT_PROGRAMS:
            _PROGRAMS.clear()
        program = _PROGRAMS[key] = sass.parse(disassemble(cubin), cubin, symbol)
    return program


_PROGRAMS: dict[tuple[int, int, str], Program] = {}
_KEPT_PROGRAMS = 256


def run(
    program: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    arguments: Sequence[Any],
    *,
    constants: Mapping[str, bytes] | None = None,
    blocks: int | None = None,
    timeout: float = 60.0,
    profile: Profile | None = None,
) -> Counts:
    """Execute a launch of ``program`` on copies of its arguments and count what every instruction did.

    ``arguments`` are the kernel's parameters in order, as ``warpwise.cuda.launch.arguments`` makes them: objects with ``data``
    (bytes as declared), or buffers with ``name``, ``address``, ``nbytes``, ``element_bytes``, ``storage`` and ``const``.
    ``shared_bytes`` is the dynamic shared memory of a block. ``constants`` are contents of ``__constant__`` and
    ``__device__`` variables by symbol; names that the program does not hold are passed over. ``blocks`` runs about that
    many blocks of the grid, spread over its interior, edges and corners, and scales the counters up; kernels that
    synchronise the whole grid always run all. ``timeout`` is in seconds (0: none); ``profile`` is the device whose L1 is
    modelled, that of the program's architecture unless given.

    Raises ``MachineFault`` for what the hardware would fault at, ``Unsupported`` for an instruction that the interpreter
    does not know, ``LaunchTimeout``, ``ValueError`` for arguments that are not the program's, ``KeyboardInterrupt``.
    """
    from warpwise.machine import launch

    return launch.run(
        program, grid, block, shared_bytes, arguments, constants=constants or {}, blocks=blocks, timeout=timeout,
        profile=profile,
    )  # fmt: skip


def unsupported(program: Program) -> list[str]:
    """Texts of the instructions that the interpreter does not know; a run fails only if it reaches one."""
    from warpwise.machine import launch

    return launch.unsupported(program)


def units(program: Program) -> list[str]:
    """The pipe that issues each instruction, by ncu's name ("alu", "fma", "lsu" ...), or "" for an unknown instruction."""
    from warpwise.machine import launch

    return launch.units(program)
