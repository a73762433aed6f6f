"""Grade how exactly the executed instructions are modelled: exact, approximate or unsupported."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from warpwise.machine import launch, runtime

if TYPE_CHECKING:
    from warpwise.machine.counts import Counts
    from warpwise.machine.program import Program

Grade = Literal["exact", "approximate", "unsupported"]
GRADES: tuple[Grade, ...] = ("exact", "approximate", "unsupported")


@dataclass(frozen=True)
class InstructionFidelity:
    """One kind of instruction of a program, such as "MUFU.EX2".

    ``note`` is what differs from the hardware, "" if the grade is "exact". ``executed`` counts warp instructions; 0 if
    the program was not run. ``lines`` are the source lines, as (file, line).
    """

    instruction: str
    grade: Grade
    note: str
    executed: int
    lines: tuple[tuple[str, int], ...]


def fidelity(program: Program, counts: Counts | None = None) -> tuple[InstructionFidelity, ...]:
    """Grade the instructions that a run executed, or without ``counts`` all of the program; unsupported ones first.

    The C++ implementation of each instruction defines its grade. Unsupported instructions are listed even if the run
    did not execute them.
    """
    kinds: dict[tuple[str, int, str], tuple[int, dict[tuple[str, int], None]]] = {}
    executed = counts.table[:, 0].tolist() if counts is not None else [0] * len(program.instructions)
    for each, (grade, note), count in zip(program.instructions, launch.grades(program), executed, strict=True):
        if counts is not None and not count and grade < 2:
            continue
        key = (".".join((each.opcode, *each.modifiers)), grade, note)
        total, lines = kinds.setdefault(key, (0, {}))
        if each.line:
            lines[each.file, each.line] = None
        kinds[key] = (total + count, lines)
    found = [
        InstructionFidelity(name, GRADES[grade], note, total, tuple(lines))
        for (name, grade, note), (total, lines) in kinds.items()
    ]
    return tuple(sorted(found, key=lambda each: (-GRADES.index(each.grade), -each.executed, each.instruction)))


def opcodes() -> dict[str, str]:
    """Return each supported opcode and what differs from the hardware in all of its forms, or "".

    Differences of some forms only, such as clock reads by S2R and CS2R, are not included.
    """
    found: dict[str, str] = {}
    kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)

    def add(name: bytes, note: bytes | None) -> None:
        found[name.decode()] = (note or b"").decode()

    callback = kind(add)
    runtime.handle().ww_machine_opcodes(callback)
    return found
