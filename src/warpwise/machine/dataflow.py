"""The registers that an instruction reads and writes, and the instructions that can follow it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpwise.machine.program import Instruction, Operand

Register = tuple[str, int]
# The registers that are constants: PT, UPT, RZ, URZ, and no base of an address.
CONSTANT = {("predicate", 7), ("uniform_predicate", 7), ("register", 255), ("uniform", 63), ("register", 256)}
_ENDS = frozenset({"EXIT", "RET", "KILL"})
_UNKNOWN = frozenset({"BRX", "BRXU", "JMX", "JMXU", "CALL"})  # instructions whose target is not an operand


def destinations(instruction: Instruction) -> set[Register]:
    """Return the registers and predicates that an instruction writes: the leading predicates and the first register."""
    found: set[Register] = set()
    for operand in instruction.operands:
        if operand.kind in ("predicate", "uniform_predicate"):
            found |= registers_of(operand)
            continue
        if operand.kind in ("register", "uniform") and "SETP" not in instruction.opcode:
            words = 4 if "128" in instruction.modifiers else 2 if "64" in instruction.modifiers or operand.wide else 1
            found |= {(operand.kind, operand.index + word) for word in range(words)}
        break
    return found - CONSTANT


def sources(instruction: Instruction) -> set[Register]:
    """Return the registers and predicates that an instruction reads, including its guard and addresses."""
    found = registers_of(instruction.guard)
    first = True
    for operand in instruction.operands:
        leading = operand.kind in ("predicate", "uniform_predicate") and first
        written = operand.kind in ("register", "uniform") and first and "SETP" not in instruction.opcode
        first = first and leading
        if not (leading or written) or instruction.opcode == "BRA":
            found |= registers_of(operand)
    return found - CONSTANT


def registers_of(operand: Operand) -> set[Register]:
    if operand.kind in ("predicate", "uniform_predicate"):
        return {(operand.kind, operand.index)}
    if operand.kind in ("register", "uniform"):
        return {(operand.kind, operand.index + word) for word in range(2 if operand.wide else 1)}
    if operand.kind == "memory":
        words = 2 if operand.base_wide else 1
        return {("register", operand.base + word) for word in range(words)} | {("uniform", operand.uniform_base)}
    return set()


def successors(program: Sequence[Instruction]) -> list[list[int]] | None:
    """The successors of each instruction; None if a branch target is unknown."""
    found: list[list[int]] = []
    for i, instruction in enumerate(program):
        onwards = [i + 1] if i + 1 < len(program) else []
        always = instruction.guard.index == 7 and not instruction.guard.inverted
        if instruction.opcode in _UNKNOWN:
            return None
        if instruction.opcode in _ENDS:
            found.append([] if always else onwards)
        elif instruction.opcode in ("BRA", "JMP"):
            targets = [operand.value for operand in instruction.operands if operand.kind == "label"]
            if not targets or not all(0 <= target < len(program) for target in targets):
                return None
            # A second predicate may be among the operands.
            conditional = not always or any(operand.kind.endswith("predicate") for operand in instruction.operands)
            found.append(targets + onwards if conditional else targets)
        else:
            found.append(onwards)
    return found


def predecessors(after: Sequence[Sequence[int]]) -> list[list[int]]:
    """The instructions that each instruction can follow, in ascending order, from the ``successors`` of all."""
    found: list[list[int]] = [[] for _ in after]
    for i, targets in enumerate(after):
        for target in targets:
            found[target].append(i)
    return found
