"""The counters of every source line, with the line's text: what the picture of a kernel's source is drawn from."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warpwise.lab.explain.model.explanation import Line

if TYPE_CHECKING:
    from warpwise.machine.counts import Counts
    from warpwise.machine.program import Program

SHARED = ("LDS", "STS", "ATOMS", "LDSM", "STSM")
LOCAL = ("LDL", "STL")
GLOBAL = ("LDG", "STG", "LD", "ST", "ATOMG", "ATOM", "RED", "REDG", "LDGSTS", "LDGMC", "UBLKCP")
_GAP = 6  # lines without machine code that are still shown
_FLOW = ("BRA", "EXIT", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "NOP")
_TOTALS = ("executed", "threads", "threads_on", "stall_cycles", "bytes")


@dataclass(frozen=True)
class Column:
    """One heat column: ``value`` is drawn as the bar; ``best``, if there is one, is what it would be at best."""

    key: str
    title: str
    best: str = ""
    explained: str = ""


COLUMNS = (
    Column("stall_cycles", "waits", explained="share of a lone warp's cycles spent before this line's instructions"),
    Column("executed", "instr", explained="warp instructions executed"),
    Column("sectors", "sectors", "ideal_sectors", "32-byte sectors of global memory, and how many times the least that would do"),
    Column("local_sectors", "local", explained="sectors of local memory: spills and arrays that are indexed"),
    Column("wavefronts", "shared", "ideal_wavefronts", "passes through shared memory, and how many times the least that would do"),
)  # fmt: skip


def shown_columns(lines: Iterable[Line]) -> list[Column]:
    """The columns that say anything about these lines."""
    lines = list(lines)
    return [column for column in COLUMNS if any(line.counters.get(column.key) for line in lines)]


def lines(
    program: Program,
    counts: Counts | None,
    metrics: Mapping[tuple[str, int], Mapping[str, float]],
    sources: Mapping[str, Sequence[str]],
    names: Mapping[str, str],
) -> tuple[Line, ...]:
    """Every line that instructions name, by file and number. ``names`` maps the program's file names to ours."""
    places: dict[tuple[str, int], list[int]] = {}
    for index, instruction in enumerate(program.instructions):
        if instruction.line and instruction.opcode != "NOP":
            places.setdefault((instruction.file, instruction.line), []).append(index)
    made = []
    for (file, number), indices in places.items():
        name = names.get(file, file)
        text = sources.get(name, ())
        made.append(
            Line(
                name, number, text[number - 1] if number <= len(text) else "", dict(metrics.get((file, number), {})),
                _counters(program, counts, indices), tuple(indices),
            )
        )  # fmt: skip
    return tuple(sorted(made, key=lambda line: (line.file, line.number)))


def _counters(program: Program, counts: Counts | None, indices: Sequence[int]) -> dict[str, float]:
    """The counters of one line: totals, and those of each memory apart."""
    if counts is None:
        return {}
    found = {name: float(counts.column(name)[list(indices)].sum()) for name in _TOTALS}
    for name in ("requests", "sectors", "ideal_sectors"):
        found[name] = _of(program, counts, name, indices, GLOBAL)
    found["local_sectors"] = _of(program, counts, "sectors", indices, LOCAL)
    found["shared_requests"] = _of(program, counts, "requests", indices, SHARED)
    for name in ("wavefronts", "ideal_wavefronts", "conflicts"):
        found[name] = _of(program, counts, name, indices, (*SHARED, "LDGSTS"))
    return found


def _of(program: Program, counts: Counts, name: str, indices: Sequence[int], opcodes: Sequence[str]) -> float:
    chosen = [index for index in indices if program.instructions[index].opcode in opcodes]
    return float(counts.column(name)[chosen].sum()) if chosen else 0.0


def numbers(lines: Mapping[int, Line], between: bool = True) -> Iterator[int | None]:
    """Line numbers to show: from the first with machine code to the last, with what stands ``between`` them; None for a gap."""
    before: int | None = None
    for number in sorted(lines):
        if before is not None and number > before + 1:
            if between and number - before <= _GAP:
                yield from range(before + 1, number)
            else:
                yield None
        yield number
        before = number


def ratio(line: Line, column: Column) -> float | None:
    """How many times the least that would do a counter is; None where there is no least."""
    best = line.counters.get(column.best, 0) if column.best else 0
    return line.counters.get(column.key, 0) / best if best else None


def texts(program: Program, own: str, own_text: str) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The text of every file that the program names, and the names that they go by here.

    ``own`` is the module's file, which may be text without a file: the compiler then calls it by the folder that it was
    compiled in.
    """
    sources: dict[str, tuple[str, ...]] = {}
    names: dict[str, str] = {}
    for file in {instruction.file for instruction in program.instructions if instruction.file}:
        if own and _same(file, own):
            names[file], sources[own] = own, tuple(own_text.splitlines())
        else:
            names[file] = file
            sources[file] = tuple(line.rstrip("\n") for line in linecache.getlines(file))
    return sources, names


def _same(file: str, own: str) -> bool:
    if file == own:
        return True
    path = Path(own)
    return Path(file) == path.absolute() if path.exists() else Path(file).name == path.name


def unreached(counts: Counts, lines: Iterable[Line], own: str) -> str:
    """What of ``own`` no lane executed, in words: whole lines, and lines in part; "" if everything ran."""
    on = counts.column("threads_on")
    whole, partly = [], []
    for line in lines:
        if line.file != own:
            continue
        # A branch that nobody takes is how code behind it is passed over, and costs nothing more.
        idle = [i for i in line.instructions if not on[i] and counts.program.instructions[i].opcode not in _FLOW]
        if len(idle) == len(line.instructions):
            whole.append(line.number)
        elif idle:
            partly.append(line.number)
    parts = [f"line{'s' * (len(whole) > 1)} {ranges(whole)}"] if whole else []
    parts += [f"parts of line{'s' * (len(partly) > 1)} {ranges(partly)}"] if partly else []
    return " and ".join(parts)


def ranges(numbers: Sequence[int]) -> str:
    """``3, 7-9``."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
