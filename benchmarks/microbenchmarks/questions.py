"""The measurements of counters: one launch of one warp each, with the lanes' addresses as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.microbenchmarks.patterns import ALL, FEW, LANES, MASKS, MORE, four_rows, matrix_rows, patterns, some

Argument = Literal["out", "data", "counter", "sum"]
WIDTHS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Question:
    """A kernel, the lanes' byte offsets and the active lanes; ``arguments`` are the kernel's buffers in order.

    ``group`` selects the counters, ``source`` adds those that ncu counts in the machine code.
    """

    name: str
    group: Literal["shared", "global"]
    file: str
    kernel: str
    offsets: tuple[int, ...]
    arguments: tuple[Argument, ...]
    active: int = ALL
    source: bool = False
    threads: int = field(default=32)


def _each(
    group: Literal["shared", "global"],
    file: str,
    kernel: str,
    chosen: dict[str, list[int]],
    *arguments: Argument,
    active: dict[str, int] | None = None,
    source: bool = False,
) -> Iterator[Question]:
    for pattern, offsets in chosen.items():
        for mask, bits in (active or {"": ALL}).items():
            name = f"{kernel} {pattern}{f' {mask}' if mask else ''}"
            yield Question(name, group, file, kernel, tuple(offsets), arguments, bits, source)


def shared() -> Iterator[Question]:
    """Wavefronts and bank conflicts."""
    for width in WIDTHS:
        chosen = patterns(width) if width >= 4 else some(width, *FEW)
        yield from _each("shared", "shared.cu", f"shared_load<{width}>", chosen, "out")
        stored = some(width, *MORE) if width >= 4 else chosen
        yield from _each("shared", "shared.cu", f"shared_store<{width}>", stored, "out")
    for width in (4, 16):
        one = some(width, "consecutive", "stride_4")
        for kernel in ("shared_load", "shared_store"):
            yield from _each("shared", "shared.cu", f"{kernel}<{width}>", one, "out", active=MASKS)
    for kind in (
        "increment",
        "add_integer",
        "maximum",
        "exchange",
        "compare_and_swap",
        "add_float",
        "add_64_bits",
    ):
        chosen = some(8 if kind == "add_64_bits" else 4, *FEW)
        yield from _each("shared", "shared_atomics.cu", f"shared_atomic_{kind}", chosen, "out", source=True)
    for matrices, transposed in ((1, "false"), (2, "false"), (4, "false"), (4, "true")):
        kernel = f"ldmatrix<{matrices}, {transposed}>"
        yield from _each("shared", "shared.cu", kernel, matrix_rows(matrices), "out", source=True)
    for width, bypass in ((4, "false"), (8, "false"), (16, "false"), (16, "true")):
        for kernel in (f"cp_async_to_pattern<{width}, {bypass}>", f"cp_async_from_pattern<{width}, {bypass}>"):
            yield from _each("shared", "shared.cu", kernel, some(width, *FEW), "out", "data", source=True)
    yield from _each("shared", "sequences.cu", "shared_load_divergent_halves<>", some(4, "consecutive", "same"), "out")


def global_memory() -> Iterator[Question]:
    """Requests and sectors."""
    for width in WIDTHS:
        chosen = patterns(width) if width >= 4 else some(width, *FEW)
        yield from _each("global", "global.cu", f"global_load<{width}>", chosen, "out", "data")
        yield from _each("global", "global.cu", f"global_store<{width}>", some(width, *FEW), "data")
        if width >= 4:
            yield from _each("global", "global.cu", f"global_load<{width}>", four_rows(width), "out", "data")
    for way in ("read_only", "cached_in_l2", "streaming", "volatile", "generic"):
        for width in (4, 16):
            chosen = some(width, "same", "consecutive", "stride_4", "random_2000_0")
            yield from _each("global", "global.cu", f"global_load_{way}<{width}>", chosen, "out", "data")
    for width in (4, 16):
        one = some(width, "consecutive", "stride_4")
        yield from _each("global", "global.cu", f"global_load<{width}>", one, "out", "data", active=MASKS)
        yield from _each("global", "global.cu", f"global_store<{width}>", one, "data", active=MASKS)
    for kind in ("u32", "f32", "u64", "f64"):
        chosen = some(8 if "64" in kind else 4, *FEW)
        yield from _each("global", "global_atomics.cu", f"global_reduction_{kind}", chosen, "data")
    for kind in ("u32", "f32", "u64", "exchange"):
        chosen = some(8 if "64" in kind else 4, *FEW)
        yield from _each("global", "global_atomics.cu", f"global_atomic_{kind}", chosen, "out", "data")
    same = some(4, "same")
    yield from _each(
        "global", "global_atomics.cu", "global_reduction_u32", some(4, "consecutive"), "data", active=MASKS
    )
    yield from _each("global", "global_atomics.cu", "global_increment_one_address", same, "counter")
    yield from _each("global", "global_atomics.cu", "global_add_float_one_address", same, "sum")
    for kernel in ("divergent_halves", "twice", "rest_of_line", "after_store", "store_load"):
        chosen = some(4, "same", "consecutive", "stride_4", "stride_32")
        yield from _each("global", "sequences.cu", f"global_load_{kernel}<>", chosen, "out", "data")
    yield from _each("global", "local.cu", "local_array<>", some(4, "same", "consecutive", "reversed"), "out")
    yield Question("spilled<>", "global", "local.cu", "spilled<>", tuple(0 for _ in LANES), ("out", "data"))


def all_questions() -> list[Question]:
    """Every question once."""
    found = {question.name: question for question in (*shared(), *global_memory())}
    return list(found.values())
