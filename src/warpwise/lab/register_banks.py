"""Register bank conflicts of FFMA loops, from a listing of machine code for Hopper (sm_90).

Hopper's register file has two banks, selected by the parity of the register number, and each delivers one word a
clock. An FFMA that reads n distinct registers of one bank takes n - 1 more clocks, except for a register that the
preceding instruction kept in the operand cache of the same position (``.reuse``). ncu reports these clocks as
``stall_dispatch``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LABEL = re.compile(r"\.(L_x_\d+):")
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(?P<text>[^;]+?)\s*;")
BRANCH = re.compile(r"BRA.*\(\.(L_x_\d+)\)")
REGISTER = re.compile(r"-?\|?R(?P<number>\d+)(?P<kept>\.reuse)?")
MIN_FFMAS = 100


def busiest_loop(listing: str) -> list[str]:
    """The instructions, without predicates, of the loop with the largest share of FFMAs.

    Empty if no loop has ``MIN_FFMAS`` of them.
    """
    code: list[str] = []
    labels: dict[str, int] = {}
    found: list[str] = []
    share = 0.0
    for line in listing.splitlines():
        if label := LABEL.match(line.strip()):
            labels[label[1]] = len(code)
        if instruction := INSTRUCTION.search(line):
            code.append(instruction["text"])
            back = BRANCH.match(code[-1])
            if back is None or back[1] not in labels:
                continue
            loop = code[labels[back[1]] :]
            ffmas = sum(text.startswith("FFMA") for text in loop)
            if ffmas >= MIN_FFMAS and ffmas > share * len(loop):
                found, share = loop, ffmas / len(loop)
    return found


def conflicts(loop: Sequence[str]) -> int:
    """Clocks that the FFMAs of one iteration wait for a register bank."""
    clocks = 0
    cached: dict[int, int] = {}
    for text in loop:
        if not text.startswith("FFMA"):
            cached = {}
            continue
        operands = [REGISTER.match(operand.strip()) for operand in text.partition(" ")[2].split(",")[1:4]]
        numbers = {position: int(found["number"]) for position, found in enumerate(operands) if found}
        read = {number for position, number in numbers.items() if cached.get(position) != number}
        odd = sum(number % 2 for number in read)
        clocks += max(0, odd - 1, len(read) - odd - 1)
        cached = {position: numbers[position] for position, found in enumerate(operands) if found and found["kept"]}
    return clocks
