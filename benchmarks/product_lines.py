"""Count the lines of the seven matrix products: their operations, ``gemm``, and the device headers that they need.

python benchmarks/product_lines.py

Files in Python, CUDA C++ and C. "lines" are all lines; "code" are those that are not blank and hold more than a comment
or a docstring. Headers that only convolutions or clustering use, tests, data and documents are not counted.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "warpwise"
PRODUCTS = ("matmul", "matmul_tf32", "scaled_matmul", "batched_matmul", "grouped_matmul", "linear", "addmm")
HEADERS = (
    "sm80/gemm*", "sm80/mma*", "sm80/tf32*", "sm90/gemm*", "sm90/pipeline*", "sm90/tile_scheduler*",
    "sm90/tma*", "sm90/wgmma*", "sm90/warpgroup*", "sm90/mbarrier*", "sm90/cluster*", "sm90/unaligned_store*",
    "core/gemm_transpose*", "core/pack", "core/activation*",
)  # fmt: skip
KINDS = {".py", ".cu", ".cuh", ".c"}


def files(part: str) -> Iterator[Path]:
    """The files of an operation, of ``gemm``, or of the headers."""
    if part == "headers":
        include = SOURCE / "cuda" / "include" / "warpwise"
        yield from (file for pattern in HEADERS for file in include.glob(pattern + ".cuh"))
        return
    folder = SOURCE / part if part == "gemm" else SOURCE / "ops" / part
    yield from (file for file in folder.rglob("*") if file.suffix in KINDS)


def code_lines(file: Path) -> int:
    text = file.read_text()
    if file.suffix != ".py":
        return sum(bool(line.strip()) and not line.strip().startswith("//") for line in text.splitlines())
    text = re.sub(r'^(\s*)"""(?:.|\n)*?"""\n', "", text, flags=re.MULTILINE)  # docstrings
    found = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            found.update(range(token.start[0], token.end[0] + 1) if token.string else ())
    return len(found)


def main() -> None:
    print(f"{'':16}{'lines':>8}{'code':>8}")
    totals = [0, 0]
    for part in (*PRODUCTS, "gemm", "headers"):
        counts = [sum(len(file.read_text().splitlines()) for file in files(part)), sum(map(code_lines, files(part)))]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        print(f"{part:16}{counts[0]:8,}{counts[1]:8,}")
    print(f"{'total':16}{totals[0]:8,}{totals[1]:8,}")


if __name__ == "__main__":
    main()
