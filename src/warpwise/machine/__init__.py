"""Execute SASS warp by warp on the CPU, with performance counters per instruction.

``load_program`` disassembles a kernel of a cubin with nvdisasm; ``run`` executes a launch of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warpwise.machine.errors import LaunchTimeout, MachineFault, NeedsAllBlocks, Unsupported

if TYPE_CHECKING:
    from warpwise.device.profiles import Profile
    from warpwise.machine.counts import Counts
    from warpwise.machine.grading import InstructionFidelity
    from warpwise.machine.program import Program

__all__ = [
    "Counts",
    "LaunchTimeout",
    "MachineFault",
    "NeedsAllBlocks",
    "Program",
    "Unsupported",
    "fidelity",
    "load_program",
    "pipes",
    "run",
    "unsupported",
]
_LAZY = {"Counts": "warpwise.machine.counts", "Program": "warpwise.machine.program"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_program(cubin: bytes, symbol: str) -> Program:
    """Return the SASS of the kernel ``symbol``. Cached per process; nvdisasm's output is cached on disk.

    Raises ``KeyError`` if the cubin has no such kernel, ``RuntimeError`` if nvdisasm cannot read the cubin,
    ``ValueError`` for an unsupported architecture, ``FileNotFoundError`` if nvdisasm is not installed.
    """
    key = (hash(cubin), len(cubin), symbol)
    program = _PROGRAMS.get(key)
    if program is None:
        from warpwise.machine import sass
        from warpwise.machine.disassemble import disassemble

        if len(_PROGRAMS) >= _MAX_CACHED_PROGRAMS:
            _PROGRAMS.clear()
        program = _PROGRAMS[key] = sass.parse(disassemble(cubin), cubin, symbol)
    return program


_PROGRAMS: dict[tuple[int, int, str], Program] = {}
_MAX_CACHED_PROGRAMS = 256


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
    """Execute a launch of ``program`` on copies of its arguments and return the counters of each instruction.

    ``arguments`` are the kernel's parameters in order, as ``warpwise.cuda.launch.arguments`` makes them: scalars with
    ``data`` (bytes as declared), or buffers with ``name``, ``address``, ``nbytes``, ``element_bytes``, ``storage``,
    ``const``. ``shared_bytes`` is the dynamic shared memory per block. ``constants`` maps symbols of ``__constant__``
    and ``__device__`` variables to their contents; unknown symbols are ignored. ``blocks`` is the approximate number of
    blocks to run, sampled from the grid's interior, edges and corners; the counters are scaled up to the whole grid.
    Cooperative kernels always run all blocks. ``timeout`` is in seconds (0: none). ``profile`` is the device whose L1
    cache is modelled (default: the profile of the program's architecture).

    Raises ``MachineFault`` where the hardware would fault, ``Unsupported`` for an unsupported instruction,
    ``LaunchTimeout``, ``ValueError`` if the arguments do not match the program, ``KeyboardInterrupt``.
    """
    from warpwise.machine import launch

    return launch.run(
        program,
        grid,
        block,
        shared_bytes,
        arguments,
        constants=constants or {},
        blocks=blocks,
        timeout=timeout,
        profile=profile,
    )


def unsupported(program: Program) -> list[str]:
    """Return the unsupported instructions as text. A run fails only if it executes one of them."""
    from warpwise.machine import launch

    return launch.unsupported(program)


def pipes(program: Program) -> list[str]:
    """Return the pipe of each instruction by ncu's name ("alu", "fma", "lsu" ...), or "" if it is not supported."""
    from warpwise.machine import launch

    return launch.pipes(program)


def fidelity(program: Program, counts: Counts | None = None) -> tuple[InstructionFidelity, ...]:
    """Grade how exactly the instructions that a run executed are modelled: "exact", "approximate" or "unsupported".

    Without ``counts``: all instructions of the program. Each entry has the name of the instruction, the grade, what
    differs from the hardware, the number of executed warp instructions and the source lines.
    """
    from warpwise.machine import grading

    return grading.fidelity(program, counts)
