"""Count the register bank conflicts of a kernel's busiest loop in its machine code. Needs no GPU.

    python benchmarks/register_banks.py src/warpwise/ops/matmul/k10_async_copies.cu \\
        "matmul_async_copies<128, 128, 16, 32, 64, 4, 3, 2, false, true>"

The busiest loop is the one with the largest share of FFMAs, at least 100 of them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src")]

from warpwise import cuda
from warpwise.lab.register_banks import MIN_FFMAS, busiest_loop, conflicts
from warpwise.machine.disassemble import disassemble


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
        sys.exit(f"{options.kernel}: no loop of {MIN_FFMAS} FFMAs or more")
    opcodes = Counter(re.split(r"[.\s]", text, maxsplit=1)[0] for text in loop)
    waits = conflicts(loop)
    print(f"{options.kernel}: {compiled.registers} registers, {compiled.spill_stores} bytes of spill stores")
    print(f"{len(loop)} instructions, {opcodes['FFMA']} FFMA, {waits} clocks of bank conflicts: ", end="")
    print(f"at most {opcodes['FFMA'] / (len(loop) + waits):.1%} of the FFMA rate")
    print(", ".join(f"{name} {count}" for name, count in opcodes.most_common()))


if __name__ == "__main__":
    main()
