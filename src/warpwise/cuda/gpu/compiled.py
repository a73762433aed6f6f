"""``Compiled``: a kernel's machine code, and its resources as the assembler reports them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_COOPERATIVE, _PROGRAMMATIC_STREAM_SERIALIZATION = 2, 6


@dataclass(frozen=True)
class Compiled:
    """One kernel's machine code and resource usage.

    ``registers``: for each thread. ``shared``: static shared memory of a block; ``stack`` and the spills: of a thread;
    all in bytes. ``cooperative``: the kernel synchronises the whole grid. ``programmatic``: it waits for the kernel
    before it itself (griddepcontrol.wait). ``constants`` maps C++ names of variables to their symbols in ``cubin``.
    ``compiler`` is "nvrtc" or "nvcc".
    """

    expression: str
    target: str
    symbol: str
    function_type: str
    registers: int
    shared: int
    stack: int
    spill_stores: int
    spill_loads: int
    cooperative: bool
    programmatic: bool
    constants: dict[str, str]
    log: str
    cubin: bytes = field(repr=False)
    compiler: str = "nvrtc"

    @property
    def attribute(self) -> int:
        """The kernel's launch attribute, a value of CUlaunchAttributeID of cuda.h; 0 if it needs none.

        The blocks of a cooperative launch are resident together. With programmatic stream serialisation a kernel may
        start before the previous one of its stream completes; CUDA graphs keep it as a programmatic edge.
        """
        return _COOPERATIVE if self.cooperative else _PROGRAMMATIC_STREAM_SERIALIZATION if self.programmatic else 0


def resources(log: str, symbol: str) -> dict[str, int]:
    """Registers, shared memory, stack and spills of ``symbol`` from the output of ptxas -v."""
    part = re.search(
        rf"Compiling entry function '{re.escape(symbol)}'(.*?)(?=Compiling entry function|\Z)", log, re.DOTALL
    )
    report = part[1] if part else ""

    def number(pattern: str) -> int:
        match = re.search(pattern, report)
        return int(match[1]) if match else 0

    return {
        "registers": number(r"Used (\d+) registers"),
        "shared": number(r"(\d+) bytes smem"),
        "stack": number(r"(\d+) bytes stack frame"),
        "spill_stores": number(r"(\d+) bytes spill stores"),
        "spill_loads": number(r"(\d+) bytes spill loads"),
    }


def synchronises_grid(cubin: bytes, symbol: str) -> bool:
    """True if the kernel reads the grid barrier's address, which a cooperative launch passes in %envreg1 and 2."""
    return b"%envreg" in _ptx(cubin, symbol)


def waits_for_previous(cubin: bytes, symbol: str) -> bool:
    """True if the kernel executes griddepcontrol.wait, for which it is launched before the previous one completes."""
    return b"griddepcontrol.wait" in _ptx(cubin, symbol)


def _ptx(cubin: bytes, symbol: str) -> bytes:
    """The kernel's PTX, which the cubin contains because it is compiled with line information."""
    start = cubin.find(b".entry " + symbol.encode() + b"(")
    end = cubin.find(b".entry ", start + 1)
    return cubin[start : end if end >= 0 else len(cubin)] if start >= 0 else b""
