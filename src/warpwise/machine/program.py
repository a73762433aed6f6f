"""A kernel's machine code, parsed from what the disassembler prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand as printed, taken apart; the fields are those of ``Operand`` in runtime/machine.h."""

    kind: str  # "register", "uniform", "predicate", "uniform_predicate", "immediate", "constant", "memory", "special", "barrier", "label", "other"
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
    """The scheduling bits of an instruction word: cycles to stall, scoreboards set (7: none) and waited for."""

    stall: int
    yields: bool
    write_barrier: int
    read_barrier: int
    wait_mask: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: ``address`` in bytes from the function's start; ``file`` and ``line`` of the source (line 0: unknown)."""

    address: int
    file: str
    line: int
    guard: Operand
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    control: Control
    text: str


@dataclass(frozen=True)
class Program:
    """A kernel's instructions and what its launch needs: parameter places, constant banks, shared and local sizes in bytes."""

    symbol: str
    architecture: tuple[int, int]
    instructions: tuple[Instruction, ...]
    registers: int
    static_shared: int
    local_bytes: int
    parameter_base: int
    parameters: tuple[tuple[int, int], ...]  # (offset from parameter_base, bytes)
    banks: dict[int, bytes]  # constant banks other than 0 with their contents; bank 3 holds __constant__ variables
    spill_stores: int = 0
