"""Register bank conflicts of a kernel's busiest loop, by its machine code; needs no GPU.

    python benchmarks/register_banks.py src/warpwise/ops/matmul/k11_async_copies.cu \\
        "matmul_async_copies<128, 128, 16, 32, 64, 4, 3, 2, false, true>"

Hopper's register file has two banks, by the parity of a register's number, and gives one word of each a clock. An FFMA that
reads n distinct registers of one bank waits n - 1 clocks; a register that the instruction before kept by ``.reuse`` in the
same place is not read again. ncu shows these clocks as ``stall_dispatch``. The busiest loop is the one in which the
largest share of instructions are FFMAs, of at least 100.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src")]

from warpwise import cuda
from warpwise.machine.disassemble import disassemble

LABEL = re.compile(r"\.(L_x_\d+):")
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(?P<text>[^;]+?)\s*;")
BRANCH = re.compile(r"BRA.*\(\.(L_x_\d+)\)")
REGISTER = re.compile(r"-?\|?R(?P<number>\d+)(?P<kept>\.reuse)?")
FEWEST = 100


def busiest_loop(listing: str) -> list[str]:
    """The instructions of the loop with the largest share of FFMAs, without predicates; none where there is no such loop."""
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
            products = sum(text.startswith("FFMA") for text in loop)
            if products >= FEWEST and products > share * len(loop):
                found, share = loop, products / len(loop)
    return found


def conflicts(loop: Sequence[str]) -> int:
    """Clocks that the loop's FFMAs wait for a bank."""
    waits = 0
    kept: dict[int, int] = {}
    for text in loop:
        if not text.startswith("FFMA"):
            kept = {}
            continue
        operands = [REGISTER.match(operand.strip()) for operand in text.partition(" ")[2].split(",")[1:4]]
        numbers = {place: int(found["number"]) for place, found in enumerate(operands) if found}
        read = {number for place, number in numbers.items() if kept.get(place) != number}
        odd = sum(number % 2 for number in read)
        waits += max(0, odd - 1, len(read) - odd - 1)
        kept = {place: numbers[place] for place, found in enumerate(operands) if found and found["kept"]}
    return waits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("kernel", help="a C++ name expression")
    parser.add_argument("--target", default="sm_90")
    options = parser.parse_args()
    try:
        compiled = cuda.load(options.source)[options.kernel].compile(options.target)
    except (OSError, cuda.CompileError, LookupError, ValueError) as error:
        sys.exit(str(error))
    loop = busiest_loop(disassemble(compiled.cubin))
    if not loop:
        sys.exit(f"{options.kernel}: no loop of {FEWEST} FFMAs or more")
    opcodes = Counter(re.split(r"[.\s]", text, maxsplit=1)[0] for text in loop)
    waits = conflicts(loop)
    print(f"{options.kernel}: {compiled.registers} registers, {compiled.spill_stores} bytes of spills")
    print(f"{len(loop)} instructions, {opcodes['FFMA']} FFMA, {waits} clocks of conflicts: ", end="")
    print(f"at most {opcodes['FFMA'] / (len(loop) + waits):.1%} of the FFMA rate")
    print(", ".join(f"{name} {count}" for name, count in opcodes.most_common()))


if __name__ == "__main__":
    main()
