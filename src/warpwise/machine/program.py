"""A kernel's SASS, parsed from nvdisasm's output."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from warpwise.machine.elf import Variable
from warpwise.machine.spins import spin_loops


@dataclass(frozen=True, slots=True)
class Operand:
    """A parsed operand; the fields are those of ``Operand`` in runtime/machine.h."""

    kind: str  # one of KINDS
    index: int = 0
    bank: int = 0
    base: int = 255
    uniform_base: int = 63
    negated: bool = False
    absolute: bool = False
    inverted: bool = False
    wide: bool = False
    base_wide: bool = False
    value: int = 0
    name: str = ""
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """Scheduling bits of an instruction: stall cycles, scoreboards that it sets (7: none) and waits for (a mask)."""

    stall: int
    yields: bool
    write_barrier: int
    read_barrier: int
    wait_mask: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: ``address`` in bytes from the program's start, source ``file`` and ``line`` (0: unknown).

    ``inlined_at`` holds file and line of the calls through which it was inlined, innermost first.
    """

    address: int
    file: str
    line: int
    guard: Operand
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    control: Control
    text: str
    inlined_at: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Program:
    """A kernel's instructions, parameters and constant banks, and its shared and local memory in bytes.

    The kernel comes first, then the functions that it calls; ``instructions[i].address`` is ``16 * i``.
    ``reserved_shared`` bytes at shared address 0 are reserved by the system and not part of ``static_shared``.
    ``device_image`` is the initial contents of the ``__device__`` variables; ``variables`` maps names to locations.
    A ``cooperative`` kernel synchronises the grid; ``waits_for_blocks`` is true if a load or atomic may be part of a
    spin wait for another block. ``cluster`` is the number of blocks of a cluster, by dimension. ``externals`` are
    driver functions that it can call, at ``elf.EXTERNALS_BASE``.
    """

    symbol: str
    architecture: tuple[int, int]
    instructions: tuple[Instruction, ...]
    registers: int
    static_shared: int
    local_bytes: int
    parameter_base: int
    parameters: tuple[tuple[int, int], ...]  # (offset from parameter_base, bytes)
    banks: dict[int, bytes]  # constant banks except bank 0; bank 3 holds __constant__ variables
    spill_stores: int = 0
    reserved_shared: int = 0
    device_image: bytes = b""
    variables: dict[str, Variable] = field(default_factory=dict)
    cooperative: bool = False
    waits_for_blocks: bool = False
    externals: tuple[str, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)

    @functools.cached_property
    def spins(self) -> tuple[range, ...]:
        """The polling loops, as ranges of instruction indices; see ``spins.spin_loops``."""
        return tuple(spin_loops(self.instructions))

    @functools.cached_property
    def uses_tf32(self) -> bool:
        """True if a matrix instruction multiplies in TF32, which drops 13 bits of each operand."""
        return any("TF32" in each.modifiers for each in self.instructions)

    @functools.cached_property
    def encoded(self) -> bytes:
        """The program in the text format of the runtime (program.cpp): a line per instruction and per operand."""
        lines = [_line("X", name) for name in self.externals]
        inside, ends = {index for loop in self.spins for index in loop}, {loop[-1] for loop in self.spins}
        for index, each in enumerate(self.instructions):
            control = each.control
            scheduling = (
                control.stall,
                int(control.yields),
                control.write_barrier,
                control.read_barrier,
                control.wait_mask,
            )
            lines.append(
                _line(
                    "I",
                    each.address,
                    *scheduling,
                    2 if index in ends else int(index in inside),
                    len(each.operands),
                    each.opcode,
                    ".".join(each.modifiers),
                    each.text,
                )
            )
            lines += [_encoded(operand) for operand in (each.guard, *each.operands)]
        return "".join(lines).encode()


KINDS = (
    "none", "register", "uniform", "predicate", "uniform_predicate", "immediate", "constant", "memory", "special",
    "barrier", "label", "other",
)  # fmt: skip
"""Operand kinds in the order of ``Kind`` in runtime/machine.h."""


def _line(*fields: object) -> str:
    return "\t".join(map(str, fields)) + "\n"


def _encoded(operand: Operand) -> str:
    flags = (operand.negated, operand.absolute, operand.inverted, operand.wide, operand.base_wide)
    bits = sum(1 << place for place, flag in enumerate(flags) if flag)
    numbers = (operand.index, operand.bank, operand.base, operand.uniform_base, bits, operand.value)
    return _line("O", KINDS.index(operand.kind), *numbers, operand.name, operand.suffix)
