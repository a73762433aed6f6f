"""Accesses of a thread to adjacent addresses, which one wider instruction could make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warpwise.lab.explain.hints.hint import WORTH, Hint, LaunchAnalysis, Place
from warpwise.machine.dataflow import Register, destinations, predecessors, registers_of, successors
from warpwise.machine.program import Instruction, Operand

_ACCESSES = {"LDG": "ld", "LD": "ld", "STG": "st", "ST": "st"}
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}  # bytes; others are 4
_ORDERED = frozenset({"BAR", "SYNCS", "MEMBAR", "ATOM", "ATOMG", "RED", "REDG", "WARPSYNC", "UCGABAR_WAIT"})
_VECTOR = 16  # bytes of the widest access
_LEAST = 0.05  # of the requests to global memory, that a hint saves
_WORDS = {"ld": ("load", "read"), "st": ("store", "write")}
_UNITS = (("LSU issue", "requests", 1), ("issue slots", "requests", 1), ("L1 tag stage", "tags", 4))
"""Units of the prediction, the counter of their work, and how much of it they do in a cycle."""


class Adjacent(NamedTuple):
    """``instructions`` of one thread at consecutive addresses, ``width`` bytes each, in the order of the addresses."""

    op: str
    instructions: tuple[int, ...]
    width: int

    @property
    def bytes(self) -> int:
        return self.width * len(self.instructions)


def adjacent_accesses(program: Sequence[Instruction]) -> list[Adjacent]:
    """Runs of two or more accesses to global memory with one base address and consecutive offsets.

    Between the accesses of a run there is no barrier, no atomic, and no entry from another branch. Empty for programs
    with calls and indirect branches.
    """
    after = successors(program)
    if after is None:
        return []
    before = predecessors(after)
    found: list[Adjacent] = []
    seen: dict[tuple[str, int, Operand], dict[int, int]] = {}  # kind and base: offsets, and their instructions
    for i, instruction in enumerate(program):
        if before[i] != [i - 1] or instruction.opcode in _ORDERED:
            found += _runs(seen, set(seen))
        op = _ACCESSES.get(instruction.opcode)
        memory = next((operand for operand in instruction.operands if operand.kind == "memory"), None)
        if op and memory is not None:
            width = next((_WIDTHS[name] for name in instruction.modifiers if name in _WIDTHS), 4)
            key = op, width, _without_offset(memory)
            seen.setdefault(key, {}).setdefault(memory.value, i)
        changed: set[Register] = destinations(instruction)
        found += _runs(seen, {key for key in seen if registers_of(key[2]) & changed})
    return found + _runs(seen, set(seen))


def _without_offset(memory: Operand) -> Operand:
    return Operand("memory", base=memory.base, uniform_base=memory.uniform_base, base_wide=memory.base_wide)


def _runs(seen: dict[tuple[str, int, Operand], dict[int, int]], ended: set[tuple[str, int, Operand]]) -> list[Adjacent]:
    """The runs of the bases in ``ended``, which are removed from ``seen``."""
    found: list[Adjacent] = []
    for key in ended:
        op, width, _ = key
        run: list[int] = []
        offsets = seen.pop(key)
        for offset in sorted(offsets):
            if offset - width not in offsets:
                run = []
            run.append(offsets[offset])
            if offset + width not in offsets and len(run) > 1:
                found.append(Adjacent(op, tuple(run), width))
    return found


def adjacent(launch: LaunchAnalysis) -> Iterator[Hint]:
    """The source lines of such runs, where all threads make all accesses of a run and the addresses are aligned."""
    program, on = launch.counts.program.instructions, launch.counts.column("threads_on")
    lines: dict[tuple[str, Place], list[tuple[Adjacent, int]]] = {}
    for run in adjacent_accesses(program):
        first, unit = program[run.instructions[0]], _unit(launch, run)
        if unit > run.width and len(set(on[list(run.instructions)])) == 1:
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
        fewer, (noun, verb) = _fewer(run, unit), _WORDS[op]
        text = (
            f"{len(run.instructions)} {noun}s of {run.width} bytes {verb} {run.bytes} adjacent bytes of a thread, "
            f"aligned to {unit} bytes: {f'one {noun}' if fewer == 1 else f'{fewer} {noun}s'} of {unit} bytes would do."
        )
        yield Hint(
            "OPT" if gain >= WORTH else "INF",
            f"adjacent {noun}s",
            text,
            gain,
            f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum",
            launch.sum("requests", launch.table.accesses("global", op)),
            *place,
            f"Access them as one vector: float4, or an array in a struct with alignas({unit}). If the source does so, "
            "the compiler has split the vector, because another branch uses the elements of the same variable. Then "
            "give each branch a variable of its own, or copy the vector from memory to memory without a variable.",
        )


def _fewer(run: Adjacent, unit: int) -> int:
    """The number of accesses of ``unit`` bytes for the bytes of a run."""
    return -(-run.bytes // unit)


def _saved(launch: LaunchAnalysis, runs: Sequence[tuple[Adjacent, int]], counter: str) -> float:
    """How much smaller a counter is with accesses of the width that each run allows."""
    counts = launch.counts.column(counter)
    return sum(
        float(counts[list(run.instructions)].sum()) * (1 - _fewer(run, unit) / len(run.instructions))
        for run, unit in runs
    )


def _unit(launch: LaunchAnalysis, run: Adjacent) -> int:
    """Bytes of the widest access that the addresses of a run allow, by its samples; 0 without samples."""
    samples = launch.counts.samples.get(run.instructions[0], ())
    starts = [each.addresses[lane] for each in samples for lane in range(32) if each.lanes >> lane & 1]
    unit = min(_VECTOR, 1 << (run.bytes.bit_length() - 1))
    while any(start % unit for start in starts):
        unit //= 2
    return unit if starts else 0
