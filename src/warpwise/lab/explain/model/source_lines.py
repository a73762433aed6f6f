"""Counters and text of every source line, for the renderings of a kernel's source."""

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
_GAP = 6  # largest gap of lines without machine code that is shown
_FLOW = ("BRA", "EXIT", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "NOP")
_TOTALS = ("executed", "threads", "threads_on", "stall_cycles", "bytes")


@dataclass(frozen=True)
class Column:
    """One column of the source view: the counter ``key`` is drawn as a bar; ``best`` is the counter of its ideal value,
    or "".
    """

    key: str
    title: str
    best: str = ""
    explained: str = ""


COLUMNS = (
    Column("stall_cycles", "waits", explained="share of a warp's stall cycles, alone on its SM"),
    Column("executed", "instr", explained="warp instructions executed"),
    Column("sectors", "sectors", "ideal_sectors", "32-byte sectors of global memory, and factor over the ideal"),
    Column("local_sectors", "local", explained="sectors of local memory: spills and indexed arrays"),
    Column("wavefronts", "shared", "ideal_wavefronts", "shared memory wavefronts, and factor over the ideal"),
)


def shown_columns(lines: Iterable[Line]) -> list[Column]:
    """The columns in which one of these lines has a value."""
    lines = list(lines)
    return [column for column in COLUMNS if any(line.counters.get(column.key) for line in lines)]


def lines(
    program: Program,
    counts: Counts | None,
    metrics: Mapping[tuple[str, int], Mapping[str, float]],
    sources: Mapping[str, Sequence[str]],
    names: Mapping[str, str],
) -> tuple[Line, ...]:
    """Every source line of the instructions, by file and number. ``names`` maps the program's file names to those
    shown.
    """
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
                name,
                number,
                text[number - 1] if number <= len(text) else "",
                dict(metrics.get((file, number), {})),
                _counters(program, counts, indices),
                tuple(indices),
            )
        )
    return tuple(sorted(made, key=lambda line: (line.file, line.number)))


def _counters(program: Program, counts: Counts | None, indices: Sequence[int]) -> dict[str, float]:
    """The counters of one line, in total and by memory space."""
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
    """Line numbers to show: those with machine code and, with ``between``, those in short gaps; None for a gap."""
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
    """A counter over its ideal value; None if it has none."""
    best = line.counters.get(column.best, 0) if column.best else 0
    return line.counters.get(column.key, 0) / best if best else None


def texts(program: Program, own: str, own_text: str) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The text of every file in the program's line table, and a mapping from its file names to those shown.

    ``own`` is the module's file. For a module from text, the compiler's name has the compilation folder in front.
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
    """The lines of ``own`` that no lane executed, whole or in part, as text; "" if everything was executed."""
    on = counts.column("threads_on")
    whole, partly = [], []
    for line in lines:
        if line.file != own:
            continue
        # A branch that is never taken skips the code behind it, and is not reported itself.
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
