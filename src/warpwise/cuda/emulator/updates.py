"""Read-modify-writes that should be atomic: their races are one finding, which names the atomic function."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from warpwise.cuda.errors import Access, DataRace, Finding

GENERIC_HINTS = (
    "no __syncthreads() or __syncwarp() separates the two",
    "no __syncthreads() separates the two",
    "blocks run in no defined order: use an atomic, or one launch after the other",
)
"""Hints of races without any synchronisation between the two threads."""

_OPERATORS = {"+": "atomicAdd", "-": "atomicSub", "|": "atomicOr", "&": "atomicAnd", "^": "atomicXor"}
_ELEMENT = r"(?:\*\s*\w+|\b\w+\s*(?:\[[^;=]*\])?(?:\.\w+)?|\(\*\w+\)(?:\.\w+)?)"
_COMPOUND = re.compile(rf"{_ELEMENT}\s*([-+|&^])=|{_ELEMENT}\s*(\+\+|--)|(\+\+|--)\s*{_ELEMENT}")
_ASSIGNED = re.compile(rf"({_ELEMENT})\s*=(?!=)\s*([^;]*)")
_COMPARED = re.compile(r"\bif\s*\(([^;<>]*)([<>])")


def merge_updates(findings: Sequence[Finding]) -> list[Finding]:
    """Merge the races of threads that read an element, change it and write it back.

    A read-modify-write without an atomic gives up to three races: of its read with another thread's write, of its write
    with a read, and of two writes. One finding of the writes stays, with a hint that names the atomic function.
    """
    kept = list(findings)
    for write in findings:
        if write not in kept or not _is_conflict(write, "write", {"write", "atomic"}):
            continue
        group = [finding for finding in kept if _belongs(finding, write)]
        reads = [side for finding in group for side in (finding.access, finding.other) if side and side.what == "read"]
        atomic = next((name for read in reads if (name := _atomic(read, write.access))), None)
        if atomic is None:
            continue
        merged = replace(
            write,
            message=f"{_subject(write)}: updates by several threads, each a read and a write, are not ordered",
            count=max(finding.count for finding in group),
            hint=_hint(group, atomic),
        )
        kept[kept.index(group[0])] = merged
        kept = [finding for finding in kept if finding not in group]
    return kept


def _is_conflict(finding: Finding, what: str, others: set[str]) -> bool:
    access, other = finding.access, finding.other
    return bool(finding.kind is DataRace and access and other and access.what == what and other.what in others)


def _belongs(finding: Finding, write: Finding) -> bool:
    """True if both sides of ``finding`` are reads or writes of the update whose write is ``write.access``, or atomics.

    The reads are at any line; ``_atomic`` decides which of them belong to the update.
    """
    if finding.kind is not DataRace or (finding.variable, finding.space) != (write.variable, write.space):
        return False
    sides = [side for side in (finding.access, finding.other) if side]
    if len(sides) != 2:
        return False
    return all(_is_part(side, write.access) for side in sides) and any(side.what != "atomic" for side in sides)


def _is_part(side: Access, write: Access | None) -> bool:
    if write is None or side.what == "atomic":
        return write is not None
    if side.what == "write":
        return (side.file, side.line) == (write.file, write.line)
    return side.what == "read" and _atomic(side, write) is not None


def _atomic(read: Access, write: Access | None) -> str | None:
    """Return the atomic function for a read at one line and a write at the same or a later one, or None."""
    if write is None or read.file != write.file or not read.line or read.line > write.line:
        return None
    text = re.sub(r"\bfor\s*\([^;]*;[^;]*;[^)]*\)", "", write.text)
    if read.line == write.line:
        if match := _COMPOUND.search(text):
            return _OPERATORS[next(filter(None, match.groups()))[0]]
        for match in _ASSIGNED.finditer(text):
            if re.sub(r"\s", "", match[1]) in re.sub(r"\s", "", match[2]):
                return _of_expression(match[2])
        if compared := _of_comparison(text, text):
            return compared
    assigned = _ASSIGNED.search(read.text)
    name = re.findall(r"\w+", assigned[1])[-1] if assigned and "[" not in assigned[1] else ""
    written = next(reversed([*_ASSIGNED.finditer(text)]), None)
    if name and written and re.search(rf"\b{name}\b", written[2]):
        return _of_expression(written[2])
    return _of_comparison(read.text, text) if write.line - read.line <= 2 else None


def _of_expression(text: str) -> str:
    if match := re.search(r"\bf?(max|min)[fl]?\b", text):
        return f"atomic{match[1].capitalize()}"
    match = re.search(r"[-+|&^]", re.sub(r"\[[^]]*\]", "", text))
    return _OPERATORS[match[0]] if match else "an atomic function"


def _of_comparison(text: str, write: str) -> str | None:
    """Return atomicMax for ``if (x[i] < v) x[i] = v``, and atomicMin for ``>`` or the other order."""
    compared, written = _COMPARED.search(text), _ASSIGNED.search(write[write.rfind(")", 0, write.rfind("=")) + 1 :])
    if not compared or not written:
        return None
    is_left = re.sub(r"\s", "", written[1]) in re.sub(r"\s", "", compared[1])
    return "atomicMax" if (compared[2] == "<") == is_left else "atomicMin"


def _subject(finding: Finding) -> str:
    return finding.message.partition(": ")[0]


def _hint(group: Iterable[Finding], atomic: str) -> str:
    hints = [finding.hint for finding in group]
    special = [hint for hint in hints if hint not in GENERIC_HINTS]
    return special[0] if special else f"use {atomic}"
