"""Accesses of a thread to adjacent addresses, which fewer and wider instructions could make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warpwise.lab.explain.hints.hint import WORTH, Hint, LaunchAnalysis, Place
from warpwise.lab.explain.words import listed
from warpwise.machine.dataflow import Register, destinations, predecessors, registers_of, successors
from warpwise.machine.program import Instruction, Operand

_ACCESSES = {"LDG": "ld", "LD": "ld", "STG": "st", "ST": "st"}
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}  # bytes; others are 4
# Accesses before and after these are not combined: other threads may act in between, or not all threads continue.
_ENDS = frozenset({
    "BAR", "SYNCS", "MEMBAR", "ATOM", "ATOMG", "RED", "REDG", "WARPSYNC", "UCGABAR_WAIT", "BRA", "EXIT", "RET",
})  # fmt: skip
_LEAST = 0.05  # of the requests to global memory, that a hint saves
_WORDS = {"ld": ("load", "read"), "st": ("store", "write")}
_VECTORS = {1: "uchar4", 2: "ushort4", 4: "float4", 8: "double2"}
_UNITS = (("LSU issue", "requests", 1), ("issue slots", "requests", 1), ("L1 tag stage", "tags", 4))
"""Units of the prediction, the counter of their work, and how much of it they do in a cycle."""

_Base = tuple[str, int, Operand, Operand]  # kind of access, width, address without the offset, guard


class Adjacent(NamedTuple):
    """``instructions`` of one thread at consecutive addresses, ``width`` bytes each, in the order of the addresses.

    ``crossed``: between two of them is an access of the other kind, which may have the same address.
    """

    op: str
    instructions: tuple[int, ...]
    width: int
    crossed: bool

    @property
    def bytes(self) -> int:
        return self.width * len(self.instructions)

    def pieces(self, unit: int) -> list[int]:
        """The widths of the fewest accesses of up to ``unit`` bytes for exactly these bytes."""
        rest = [1 << bit for bit in reversed(range(unit.bit_length() - 1)) if self.bytes % unit >> bit & 1]
        return [unit] * (self.bytes // unit) + rest


def adjacent_accesses(program: Sequence[Instruction]) -> list[Adjacent]:
    """Runs of two or more accesses to global memory with one base address, one guard and consecutive offsets.

    Between the accesses of a run there is no barrier, no atomic and no branch. Volatile accesses are left out. The
    result is empty for programs with calls or indirect branches.
    """
    after = successors(program)
    if after is None:
        return []
    before = predecessors(after)
    found: list[Adjacent] = []
    seen: dict[_Base, dict[int, int]] = {}  # of each base: offsets, and their instructions
    for i, instruction in enumerate(program):
        if before[i] != [i - 1] or instruction.opcode in _ENDS:
            found += _runs(program, seen, set(seen))
        op = _ACCESSES.get(instruction.opcode)
        memory = next((operand for operand in instruction.operands if operand.kind == "memory"), None)
        if op and memory is not None and "STRONG" not in instruction.modifiers:
            width = next((_WIDTHS[name] for name in instruction.modifiers if name in _WIDTHS), 4)
            key = op, width, _without_offset(memory), instruction.guard
            seen.setdefault(key, {}).setdefault(memory.value, i)
        changed: set[Register] = destinations(instruction)
        ended = {key for key in seen if (registers_of(key[2]) | registers_of(key[3])) & changed}
        found += _runs(program, seen, ended)
    return [*found, *_runs(program, seen, set(seen))]


def _without_offset(memory: Operand) -> Operand:
    return Operand("memory", base=memory.base, uniform_base=memory.uniform_base, base_wide=memory.base_wide)


def _runs(program: Sequence[Instruction], seen: dict[_Base, dict[int, int]], ended: set[_Base]) -> Iterator[Adjacent]:
    """The runs of the bases in ``ended``, which are removed from ``seen``."""
    for key in ended:
        op, width, offsets = key[0], key[1], seen.pop(key)
        run: list[int] = []
        for offset in sorted(offsets):
            if offset - width not in offsets:
                run = []
            run.append(offsets[offset])
            if offset + width not in offsets and len(run) > 1:
                between = program[min(run) : max(run)]
                yield Adjacent(op, tuple(run), width, any(_ACCESSES.get(each.opcode, op) != op for each in between))


def adjacent(launch: LaunchAnalysis) -> Iterator[Hint]:
    """The source lines of such runs, where the threads make all accesses of a run and the addresses are aligned."""
    program, on = launch.counts.program.instructions, launch.counts.column("threads_on")
    lines: dict[tuple[str, Place], list[tuple[Adjacent, int]]] = {}
    for run in adjacent_accesses(program):
        first, unit = program[run.instructions[0]], _unit(launch, run)
        if unit > run.width and on[run.instructions[0]] and len(set(on[list(run.instructions)])) == 1:
            lines.setdefault((run.op, (first.file, first.line)), []).append((run, unit))
    everything = launch.sum("requests", launch.table.accesses("global", "ld", "st"))
    for (op, place), runs in lines.items():
        if _saved(launch, runs, "requests") < _LEAST * everything:
            continue
        factors = {unit: launch.without(unit, _saved(launch, runs, work) / rate) for unit, work, rate in _UNITS}
        if op == "st":  # each store sends its own sectors
            factors["L2"] = launch.without("L2", _saved(launch, runs, "l2_sectors"))
        gain = launch.speedup(factors)
        run, unit = max(runs, key=lambda each: each[0].bytes)
        yield Hint(
            "OPT" if gain >= WORTH else "INF",
            f"adjacent {_WORDS[op][0]}s",
            _text(run, unit),
            gain,
            f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum",
            launch.sum("requests", launch.table.accesses("global", op)),
            *place,
            _idea(run, unit),
        )


def _text(run: Adjacent, unit: int) -> str:
    (noun, verb), pieces = _WORDS[run.op], run.pieces(unit)
    each = f"{run.width} byte{'s' if run.width > 1 else ''}"
    fewer = f"one {noun}" if len(pieces) == 1 else f"{len(pieces)} {noun}s"
    return (
        f"{len(run.instructions)} {noun}s of {each} {verb} {run.bytes} adjacent bytes of a thread, aligned to {unit} "
        f"bytes: {fewer} of {listed(map(str, dict.fromkeys(pieces)))} bytes would do."
    )


def _idea(run: Adjacent, unit: int) -> str:
    between = ""
    if run.crossed:
        other = "stores" if run.op == "ld" else "loads"
        between = f" If the {other} in between never have the same address, declare the pointers __restrict__."
    return (
        f"Access them as a vector: {_VECTORS[run.width]}, or an array in a struct with alignas({unit}), if the pointer "
        f"is aligned for all sizes.{between} If the source does so, the compiler has split the vector, because another "
        "branch uses the elements of the same variable. Then give each branch a variable of its own, or copy the "
        "vector from memory to memory without a variable."
    )


def _saved(launch: LaunchAnalysis, runs: Sequence[tuple[Adjacent, int]], counter: str) -> float:
    """How much smaller a counter is with accesses of the width that each run allows."""
    counts = launch.counts.column(counter)
    return sum(
        float(counts[list(run.instructions)].sum()) * (1 - len(run.pieces(unit)) / len(run.instructions))
        for run, unit in runs
    )


def _unit(launch: LaunchAnalysis, run: Adjacent) -> int:
    """Bytes of the widest access, up to those of a run, that the addresses of all requests of its first one allow."""
    first = run.instructions[0]
    return max(
        (width for width in (4, 8, 16) if width <= run.bytes and not launch.counts.column(f"off{width}")[first]),
        default=0,
    )
