"""Find polling loops, which read a word of global memory until another thread changes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpwise.machine.dataflow import CONSTANT, Register, destinations, registers_of, sources

if TYPE_CHECKING:
    from warpwise.machine.program import Instruction

_LONGEST = 64  # instructions; longer loops are not examined
_MEMORY = ("LD", "ST", "ATOM", "RED", "SYNCS", "UBLK", "UTMA", "BAR", "CALL", "SULD", "SUST", "TEX", "TLD")


def polls(instruction: Instruction) -> bool:
    """Return True for an atomic or a strong load (volatile, relaxed, acquire): it observes other threads' stores."""
    if instruction.opcode in ("ATOM", "ATOMG"):
        return True
    return instruction.opcode in ("LD", "LDG") and "STRONG" in instruction.modifiers


def spin_loops(instructions: Sequence[Instruction]) -> list[range]:
    """Return the ranges of instruction indices of the loops that only poll.

    A loop is the range from the target of a backward branch to the branch. It polls if it accesses no other memory, the
    address and operands of the access do not depend on the value read, and a branch in the loop depends on that value.
    Loops that retry a compare-and-swap with a new operand (a float atomicMax), or fetch work from a counter, therefore
    do not poll.
    """
    found = []
    for end, instruction in enumerate(instructions):
        label = next((each for each in instruction.operands if each.kind == "label"), None)
        if instruction.opcode != "BRA" or label is None or not 0 <= end - label.value < _LONGEST:
            continue
        loop = range(label.value, end + 1)
        if _only_polls([instructions[index] for index in loop], loop):
            found.append(loop)
    return found


def _only_polls(body: Sequence[Instruction], loop: range) -> bool:
    accesses = [each for each in body if polls(each)]
    others = (each for each in body if each.opcode.startswith(_MEMORY) and each.opcode not in ("LDC", "LDCU"))
    if not accesses or any(not polls(each) for each in others):
        return False
    straight = all(each.opcode != "BRA" for each in body[:-1])  # then setting a register again drops its value
    read: set[Register] = set()
    while True:
        before, decides = set(read), False
        for each in body:
            depends = bool(read & sources(each))
            if polls(each) and depends:
                return False
            decides |= each.opcode == "BRA" and depends
            if polls(each) or depends:
                read |= destinations(each)
            elif straight and registers_of(each.guard) <= CONSTANT:
                read -= destinations(each)
        if read == before:
            return decides
