"""Machine code executed warp by warp on the CPU, and counted: what every instruction of a launch did.

``load_program`` reads a kernel of a cubin through nvdisasm; ``run`` executes a launch of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpwise.machine.program import Program


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
