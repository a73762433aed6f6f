"""Translate the runtime's reports into findings with a source line, an element of an array, and a hint."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from warpwise.cuda import errors
from warpwise.cuda.emulator.runtime import Report, Side
from warpwise.cuda.emulator.updates import merge_updates
from warpwise.cuda.errors import Access, Finding, Index3
from warpwise.cuda.source.kernels import kernel_of, kernels

if TYPE_CHECKING:
    from warpwise.cuda.emulator.compiler import Build

KINDS: tuple[type[errors.KernelError], ...] = (
    errors.KernelError,
    errors.OutOfBounds,
    errors.DataRace,
    errors.UninitializedRead,
    errors.UnwrittenOutput,
    errors.ReadOnlyWrite,
    errors.MisalignedAccess,
    errors.BarrierDivergence,
    errors.Deadlock,
    errors.UndefinedBehaviour,
    errors.KernelAssertion,
    errors.KernelTimeout,
    errors.UnsupportedFeature,
    errors.LaunchError,
    errors.SpecialValue,
)  # in the order of ``ww::Kind``
ACTIONS = (
    "read", "write", "atomic", "asynchronous copy", "wait", "return", "executed", "unknown thread", "volatile read",
    "volatile write",
)  # fmt: skip
_VERBS = {
    "read": "read of",
    "write": "write to",
    "unknown thread": "write to",
    "atomic": "atomic on",
    "asynchronous copy": "asynchronous copy to",
}
SPACES = ("", "global", "shared", "dynamic shared", "module", "local")
_HEADERS = Path(__file__).parent / "include"
_WARP = 32
_FILLED = (0xFEFEFEFE, 0xAAAAAAAA)  # 32 bits of a local variable without a value, by g++ and by clang
_FACTORS = (*range(1, 65), *(2**i for i in range(7, 14)))
_NEAR, _FAR = 2**12, 2**24
_HASHED_BYTES, _LINE_BITS = 80, 18  # kHashedBytes and kLineBits of abi.h


def translate(build: Build, reports: Sequence[Report], load_bias: int, block: Index3) -> list[Finding]:
    """Return ``reports`` as findings with lines of the user's source, in the order in which they occurred."""
    reports = [report for report in reports if not report.passed_access or _passes(build, report, load_bias)]
    reached = [pc for report in reports for pc in (report.access.pc, report.other.pc, *report.callers) if pc]
    places = _lines(build, [pc - load_bias for pc in reached])
    findings = merge_updates(_merged(_finding(build, report, places, load_bias, block) for report in reports))
    return sorted(findings, key=functools.partial(_rank, findings))


def access_of(build: Build, side: Side, load_bias: int) -> Access:
    """Return one side of a report, with its line of the user's source."""
    return _access(build, side, _lines(build, [side.pc - load_bias] if side.pc else []), load_bias)


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """Merge the findings of several instructions of one line, and add their counts."""
    kept: dict[object, Finding] = {}
    for finding in findings:
        sides = [(side.what, side.file, side.line) for side in (finding.access, finding.other) if side]
        known = any(line for _, _, line in sides)
        number = finding.message if finding.kind is errors.SpecialValue else ""
        key = (finding.kind, finding.variable, finding.space, number, *sides) if known else len(kept)
        first = kept.get(key)
        hint = finding.hint if first is None or finding.hint == _NOT_WAITED_FOR else first.hint
        kept[key] = replace(first, count=first.count + finding.count, hint=hint) if first else finding
    return list(kept.values())


def _rank(findings: Sequence[Finding], finding: Finding) -> int:
    """Return a sort key. A race on unwritten memory is also an uninitialised read; the race comes first.

    Of the races of one variable, the one with a copy that is certainly not waited for comes first: other races with the
    copy may have the same cause.
    """
    first = findings.index(finding)
    if finding.kind is not errors.DataRace:
        return 2 * first
    decides = finding.hint == _NOT_WAITED_FOR
    after = (errors.UninitializedRead, errors.DataRace) if decides else (errors.UninitializedRead,)
    twins = [
        index
        for index, other in enumerate(findings)
        if other.kind in after and other.variable == finding.variable and other.space == finding.space
    ]
    return 2 * min([first, *twins]) - 1 - decides


def _finding(
    build: Build, report: Report, places: dict[int, tuple[str, int]], load_bias: int, block: Index3
) -> Finding:
    kind = KINDS[report.kind]
    variable, space = report.variable.decode(errors="replace"), SPACES[report.space]
    by_known_thread = ACTIONS[report.access.action] != "unknown thread"
    has_access = kind not in (errors.UnwrittenOutput, errors.LaunchError) and by_known_thread
    numbered = bool(variable) or (kind is errors.UndefinedBehaviour and report.elements > 0)
    access = _access(build, report.access, places, load_bias) if has_access else None
    if kind is errors.KernelTimeout and access and not access.line:
        access = _last_known(build, report, access, places, load_bias)
    if kind is errors.UndefinedBehaviour and numbered and access:
        variable = _indexed(access.text)
    other = _access(build, report.other, places, load_bias) if report.has_other else None
    return Finding(
        kind=kind,
        kernel=build.expression,
        message=_message(kind, report, variable, space),
        access=access,
        other=other,
        variable=variable,
        space=space,
        index=report.index if numbered else None,
        size=report.elements if numbered else None,
        count=1 if kind is errors.UnwrittenOutput else report.count,
        hint=_hint(kind, report, block, access.text if access else ""),
    )


def _access(build: Build, side: Side, places: dict[int, tuple[str, int]], load_bias: int) -> Access:
    file, line = _place(build, side.line) if side.line else places.get(side.pc - load_bias, ("", 0))
    x, y, z = side.block
    i, j, k = side.thread
    what = side.label.decode(errors="replace") or ACTIONS[side.action]
    return _placed(build, Access(what, (x, y, z), (i, j, k)), file, line)


def _place(build: Build, place: int) -> tuple[str, int]:
    """Return the file and the line of a place that ``ww_place`` of abi.h made.

    Of several files with the same hash, the first one that has a statement in this line.
    """
    hashed, line = divmod(place, 1 << _LINE_BITS)
    files = [each for each in (build.file, *build.files) if _file_hash(each) == hashed]
    if len(files) > 1:
        files = [each for each in files if _STATEMENT.search(_text(build, each, line))] or files
    return (files[0] if files else build.file), line


_STATEMENT = re.compile(r"^(?!//|/\*|#).*[;(){}=,]")


@functools.lru_cache(maxsize=1024)
def _file_hash(name: str) -> int:
    """Return the hash of ``ww_place``."""
    hashed = 2166136261
    for byte in name.encode()[-_HASHED_BYTES:]:
        hashed = ((hashed ^ byte) * 16777619) & 0xFFFFFFFF
    return (hashed ^ hashed >> 13) % 8191


def _placed(build: Build, access: Access, file: str, line: int) -> Access:
    """``access`` at a line: with its text, and the line of the Python file that holds the source, if one does."""
    origin = build.origin.at(line) if build.origin and file == build.file else ""
    return replace(access, file=file, line=line, text=_text(build, file, line), origin=origin)


def _last_known(
    build: Build, report: Report, access: Access, places: dict[int, tuple[str, int]], load_bias: int
) -> Access:
    """After a timeout in a header of the emulator or between threads: the line of the innermost call in the user's
    source, or the first line of the kernel.
    """
    calls = (places[pc - load_bias] for pc in report.callers if pc - load_bias in places)
    declared = kernel_of(build.expression, kernels(build.text))
    file, line = next(calls, (build.file, declared.line if declared else 0))
    return _placed(build, access, file, line)


def _indexed(text: str) -> str:
    """Return the array that a line of source indexes, or '' if it indexes several."""
    names = set(re.findall(r"([A-Za-z_]\w*)\s*\[", text))
    return names.pop() if len(names) == 1 else ""


def _text(build: Build, file: str, line: int) -> str:
    if file == build.file:
        lines = build.text.splitlines()
    else:
        try:
            lines = Path(file).read_text(errors="replace").splitlines() if file else []
        except OSError:
            lines = []
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


# ---- Messages


def _message(kind: type[errors.KernelError], report: Report, variable: str, space: str) -> str:
    said = report.message.decode(errors="replace")
    what = _element(report, variable)
    action = _VERBS.get(ACTIONS[report.access.action], "access to")
    if kind is errors.OutOfBounds:
        if not variable:
            return f"{_bytes(report)}{action} address {report.address:#x}: {said}"
        count = f"{report.elements:,} element{'' if report.elements == 1 else 's'}"
        message = f"{action} {what}, but {_space(space)}'{variable}' has {count} ({_distance(report)})"
        return f"{message}: {said}" if said else message
    if kind is errors.DataRace:
        both = f"{ACTIONS[report.access.action]} and {ACTIONS[report.other.action]}"
        return said or f"{_space(space)}{what}: {both} are not ordered"
    if kind is errors.UninitializedRead:
        return said or f"read of {_space(space)}{what}, which no thread has written"
    if kind is errors.UnwrittenOutput:
        unwritten = f"{report.count:,} of the {report.elements:,} elements of '{variable}' were never written"
        return f"{unwritten}; the first is {what}. If this is intended, pass it as an ordinary argument, without out"
    if kind is errors.ReadOnlyWrite:
        owner = "is declared __constant__ or const" if space == "module" else "the kernel declares const"
        return f"write to {what}, which {owner}"
    if kind is errors.UndefinedBehaviour and report.count > 1:
        said = re.sub(r"of lane \d+, which does", "of a lane that does", said)
    if kind is errors.MisalignedAccess and variable:
        detail = said or f"{report.access_bytes} bytes at an address that is not a multiple of {report.access_bytes}"
        return f"{action} {_space(space)}{what}: {detail}"
    return said


def _element(report: Report, variable: str) -> str:
    count = report.access_bytes // report.element_bytes if report.element_bytes else 0
    several = f" and {count - 1} more" if count > 1 and KINDS[report.kind] is not errors.UnwrittenOutput else ""
    return f"{variable}{_subscripts(report)}{several}" if variable else f"address {report.address:#x}"


def _subscripts(report: Report) -> str:
    """``[5][0]``, as the source declares the array; the flat index of an element outside of it, or of other memory."""
    indices: list[int] = []
    rest = report.index
    if 0 <= rest < report.elements:
        for extent in filter(None, reversed(report.inner)):
            rest, inner = divmod(rest, extent)
            indices.insert(0, inner)
    return "".join(f"[{index}]" for index in [rest, *indices])


def _space(space: str) -> str:
    return f"{space} " if space in ("shared", "dynamic shared") else ""


def _bytes(report: Report) -> str:
    return f"{report.access_bytes}-byte " if report.access_bytes else ""


def _distance(report: Report) -> str:
    if report.index < 0:
        return f"{-report.index:,} before the first"
    return f"{report.index - report.elements + 1:,} past the last"


_NOT_WAITED_FOR = "the copy has not been waited for: wait for its group, pipeline stage or barrier first"
# What the async proxy does for a thread, by the label of the access.
_ASYNC_HINTS = {
    "bulk load": "the mbarrier of the bulk copy has not been waited for",
    "bulk store": "wait for the bulk copy's read by cp.async.bulk.wait_group.read first, then for a barrier",
    "wgmma": "wait for the wgmma by wgmma.wait_group before its operands are released or written",
}


def _hint(kind: type[errors.KernelError], report: Report, block: Index3, text: str) -> str:
    if kind is errors.DataRace and report.has_other:
        if (label := report.other.label.decode(errors="replace")) in _ASYNC_HINTS:
            return _ASYNC_HINTS[label]
        if "fence.proxy." in report.message.decode(errors="replace"):
            return ""
        if missing := report.hint.decode(errors="replace"):
            return missing
        if ACTIONS[report.other.action] == "asynchronous copy":
            return _NOT_WAITED_FOR
        if list(report.access.block) != list(report.other.block):
            if SPACES[report.space] in ("shared", "dynamic shared"):
                return "no barrier of the cluster, with release and acquire, separates the two"
            return "blocks run in no defined order: use an atomic, or one launch after the other"
        if _warp(report.access, block) == _warp(report.other, block):
            return "no __syncthreads() or __syncwarp() separates the two"
        return "no __syncthreads() separates the two"
    if kind is errors.OutOfBounds and report.space == SPACES.index("dynamic shared") and not report.elements:
        return (
            "no dynamic shared memory was passed: kernel[grid, block, bytes], <<<grid, block, bytes>>> or, in the "
            "shell, --shared BYTES"
        )
    if kind in (errors.OutOfBounds, errors.MisalignedAccess, errors.UndefinedBehaviour) and (what := _filled(report)):
        return f"{what} probably comes from a local variable that has no value yet: it contains a fill pattern"
    if kind is errors.UndefinedBehaviour and "read-only cache" in report.message.decode(errors="replace"):
        return "it may return an old value: use an ordinary load"
    if kind is errors.UninitializedRead and SPACES[report.space] == "global" and "atomic" in text:
        return (
            "an atomic needs a start value: fill the array first (in a program by cudaMemset), and pass it without out "
            "(inout: in the shell)"
        )
    return ""


def _filled(report: Report) -> str:
    """The part of an access that a local variable without a value explains: "the index", "the address" or ""."""
    outside = report.elements > 0 and abs(report.index) > _FAR
    for value in _FILLED:
        # The variable or a multiple of it, such as row * width, and an offset.
        if outside and any((report.index - value * factor + _NEAR) % 2**32 < 2 * _NEAR for factor in _FACTORS):
            return "the index"
        if abs(report.address - (value << 32 | value)) < 2**32:
            return "the address"
    return ""


def _warp(side: Side, block: Index3) -> int:
    return (side.thread[0] + block[0] * (side.thread[1] + block[1] * side.thread[2])) // _WARP


# ---- From addresses in the library to lines of the source


def _passes(build: Build, report: Report, load_bias: int) -> bool:
    """True if the exited lane's last access follows the warp operation in the source of the same function."""
    program = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    addresses = (report.passed_operation - load_bias - 1, report.passed_access - load_bias - 1)
    if not program or min(addresses) < 0:
        return False
    command = [program, "-e", str(build.library), "-i", "-f", "-a", *map(hex, addresses)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    frames = [part.split("\n") for part in re.split(r"(?m)^0x[0-9a-f]+\n", output)[1:]]
    places = []
    for frame in frames:  # the last two lines: the function that is not inlined, and its line
        *_, function, place = [line for line in frame if line] or ["", ""]
        match = re.match(r".*:(\d+)", place)
        places.append((function, int(match[1]) if match else 0))
    if len(places) != len(addresses):
        return False
    (function, line), (other, last) = places
    return function == other and 0 < line < last


def _lines(build: Build, addresses: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Return for each address the innermost source line outside the emulator's headers."""
    wanted = sorted(set(addresses))
    program = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if not wanted or not program:
        return {}
    command = [program, "-e", str(build.library), "-i", "-a", *(hex(address - 1) for address in wanted)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    places: dict[int, tuple[str, int]] = {}
    address = 0
    for text in output.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", text):
            address = int(text, 16) + 1
            continue
        match = re.match(r"(.*):(\d+)", text)
        if match and address not in places and int(match[2]) and (file := _user_file(build, match[1])):
            places[address] = (file, int(match[2]))
    return places


def _user_file(build: Build, file: str) -> str:
    """Return the file name for a message, or '' for a header of the emulator. Debug information adds a folder to it."""
    if file == build.file or file.endswith("/" + build.file):
        return build.file
    if file.startswith("?") or "<" in file or Path(file).is_relative_to(_HEADERS) or not Path(file).is_file():
        return ""
    return file
