"""Run NVIDIA's compute-sanitizer on launches on a GPU, and convert the reports of its four tools to findings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from warpwise.cuda.errors import (
    Access,
    BarrierDivergence,
    DataRace,
    Finding,
    KernelError,
    MisalignedAccess,
    OutOfBounds,
    UninitializedRead,
)
from warpwise.lab.errors import MeasurementError
from warpwise.lab.profile.ncu import CapturedLaunch
from warpwise.lab.profile.ncu.measure import described, environment, require_gpu

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PURPOSES = {
    "memcheck": "accesses outside of any allocation, or misaligned",
    "racecheck": "races in shared memory",
    "initcheck": "reads of uninitialised global memory",
    "synccheck": "barriers that not all threads reach",
}
# PyTorch probes the API, so errors of API calls are not reported; errors of kernels are.
_OPTIONS = ("--report-api-errors", "no", "--show-backtrace", "no", "--print-limit", "1000")
_NOT_FOUND = """\
compute-sanitizer was not found. It comes with the CUDA toolkit (`cuda-sanitizer` in NVIDIA's package repositories).
Searched: $PATH, $CUDA_HOME/bin, /usr/local/cuda/bin. Without --sanitizer the kernel is checked on the CPU."""
_SHOWN = 30  # lines of a failed run


class SanitizerError(MeasurementError):
    """compute-sanitizer was not found or failed; the message has the end of its output."""


def sanitize(
    launches: Sequence[CapturedLaunch], tools: Sequence[str] = TOOLS, timeout: float = 300.0
) -> dict[str, list[Finding]]:
    """Run the launches on this machine's GPU under each of ``tools``; returns findings by tool, equal ones merged.

    The launches run in another process. Arguments on the CPU are copied to the GPU; those marked by ``cuda.out`` stay
    uninitialised. Every tensor has its own allocation, so that out-of-bounds accesses are found. ``timeout`` is in
    seconds per tool. Raises ``MeasurementError`` without a GPU, ``SanitizerError`` without the program, ``ValueError``
    for an unknown tool.
    """
    for tool in tools:
        if tool not in TOOLS:
            raise ValueError(f"sanitizer: no tool {tool!r}; there are {', '.join(TOOLS)}")
    require_gpu("--sanitizer")
    program = find()
    sources = {launch.launcher.kernel.module.file: launch.launcher.kernel.module.text for launch in launches}
    with tempfile.TemporaryDirectory(prefix="warpwise_sanitizer_") as folder:
        spec = Path(folder) / "launches.pt"
        torch.save([described(launch) for launch in launches], spec)
        return {tool: list(parse(_tool_output(program, tool, spec, timeout), sources)) for tool in tools}


def find() -> Path:
    """The compute-sanitizer on $PATH or in the CUDA toolkit. Raises ``SanitizerError`` if there is none."""
    if found := shutil.which("compute-sanitizer"):
        return Path(found)
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    for home in (*homes, Path("/usr/local/cuda")):
        for folder in (home / "bin", home / "compute-sanitizer"):
            if os.access(folder / "compute-sanitizer", os.X_OK):
                return folder / "compute-sanitizer"
    raise SanitizerError(_NOT_FOUND)


def _tool_output(program: Path, tool: str, spec: Path, timeout: float) -> str:
    """The output of a tool. Raises ``SanitizerError`` if it failed or timed out."""
    log = spec.with_name(f"{tool}.log")
    command = [sys.executable, "-m", "warpwise.lab.profile.ncu.child", str(spec), "--once"]
    # PyTorch's caching allocator shares allocations between tensors, which would hide out-of-bounds accesses.
    surroundings = {**os.environ, **environment(), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    try:
        done = subprocess.run(
            [program, "--tool", tool, *_OPTIONS, "--log-file", log, *command],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            env=surroundings,
        )
    except subprocess.TimeoutExpired as error:
        raise SanitizerError(
            f"{tool} did not finish within {timeout:.0f} s; it makes kernels tens of times slower: use a smaller size"
        ) from error
    said = log.read_text(errors="replace") if log.exists() else ""
    counted = sum(int(number) for number in re.findall(r"SUMMARY: (\d+) ", said))
    if "SUMMARY" not in said or bool(counted or done.returncode) > bool(_reports(said)):
        lines = f"{said}\n{done.stdout}\n{done.stderr}".strip().splitlines()
        raise SanitizerError(f"{tool} ended with exit status {done.returncode}:\n" + "\n".join(lines[-_SHOWN:]))
    return said


_PREFIX = re.compile(r"^=+ ?")
# Headlines other than findings: the banner, totals, messages about the API or the process.
_OTHER = re.compile(
    r"COMPUTE-SANITIZER|.*SUMMARY|Program hit|Target application|(?:Error|Warning): (?:process|No attachable)|Internal"
)
_THREAD = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
# "at scale(float *)+0x90 in scale.cu:7", "at scale(float *):0x90 in scale.cu:7",
# "at 0x90 in scale.cu:7:scale(float *)", "at 0x90 in scale(float *)"
_PLACES = (
    re.compile(r"\bat (?P<kernel>.+?)[+:]0x[0-9a-f]+ in (?P<file>.+?):(?P<line>\d+)(?=\s|$)"),
    re.compile(r"\bat 0x[0-9a-f]+ in (?P<file>[^(]+?):(?P<line>\d+):(?P<kernel>.+?)(?: \[|$)"),
    re.compile(r"\bat 0x[0-9a-f]+ in (?P<kernel>.+?)(?: and |$)"),
    re.compile(r"\bat (?P<kernel>.+?)[+:]0x[0-9a-f]+(?=\s|$)"),
)


def parse(text: str, sources: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """The findings in a tool's output, merged by kind and source position with their number in ``count``.

    ``sources`` are the texts of files by name, for quoting source lines.
    """
    found: dict[tuple[object, ...], Finding] = {}
    for report in _reports(text):
        made = _race(report, sources) if " between " in report[0] else _finding(report, sources)
        place = (made.access.file, made.access.line) if made.access and made.access.line else made.message
        key = (made.kind, made.kernel, place)
        known = found.get(key)
        found[key] = replace(known, count=known.count + made.count) if known else made
    yield from found.values()


def _reports(text: str) -> list[list[str]]:
    """The lines of each report, without the leading row of equal signs."""
    reports: list[list[str]] = []
    open_ = False
    for line in text.splitlines():
        if not line.startswith("==="):
            continue
        plain = _PREFIX.sub("", line)
        if plain and not plain.startswith(" "):
            open_ = not _OTHER.match(plain)
            if open_:
                reports.append([plain.rstrip()])
        elif plain.strip() and open_:
            reports[-1].append(plain.strip())
        else:
            open_ = False
    return reports


def _finding(report: Sequence[str], sources: Mapping[str, str] | None) -> Finding:
    """A report of memcheck, initcheck or synccheck."""
    head, rest = report[0].rstrip("."), report[1:]
    kernel, file, line = _place(rest)
    thread = next((match for part in rest if (match := _THREAD.search(part))), None)
    numbers = [int(number) for number in thread.groups()] if thread else []
    extra = [part for part in rest if part.startswith(("Address", "Access", "and is"))]
    access = None
    if thread:
        what = "write" if " write " in head else "barrier" if head.startswith("Barrier") else "read"
        what = "atomic" if "atomic" in head.lower() else what
        access = Access(
            what,
            (numbers[3], numbers[4], numbers[5]),
            (numbers[0], numbers[1], numbers[2]),
            file,
            line,
            _line(file, line, sources),
        )
    message = "; ".join([head, *extra])
    return Finding(_kind(message), kernel, message, access)


def _kind(message: str) -> type[KernelError]:
    for words, kind in (
        ("misaligned", MisalignedAccess),
        ("Uninitialized", UninitializedRead),
        ("Barrier", BarrierDivergence),
        ("hazard", DataRace),
        ("Invalid __", OutOfBounds),
        ("out of bounds", OutOfBounds),
    ):
        if words in message:
            return kind
    return KernelError


_SIDE = re.compile(r"(Write|Read|Atomic) access (at .+?)(?= \[| and (?:Write|Read|Atomic) access|$)")


def _race(report: Sequence[str], sources: Mapping[str, str] | None) -> Finding:
    """A report of racecheck: two accesses within a block, without thread indices."""
    text, kernel, hazards = " ".join(report), "", 0
    sides = []
    for what, where in _SIDE.findall(text):
        name, file, line = _place([where])
        kernel = kernel or name
        at = f" at {Path(file).name}:{line}:  {_line(file, line, sources)}".rstrip(": ") if line else ""
        sides.append(f"{what.lower()}{at}")
    hazards = sum(int(number) for number in re.findall(r"\[(\d+) hazards?\]", text)) or 1
    message = "race in shared memory between\n    " + "\n    and ".join(sides or [text])
    hint = "" if text.startswith("Error") else "a warning: the tool found that the same value is written"
    return Finding(DataRace, kernel, message, space="shared", count=hazards, hint=hint)


def _place(parts: Iterable[str]) -> tuple[str, str, int]:
    """Kernel, file and line of a report; "" and 0 if it has none."""
    for part in parts:
        for pattern in _PLACES:
            if match := pattern.search(part):
                groups = match.groupdict()
                kernel = re.sub(r"^void ", "", groups["kernel"].strip())
                return _without_parameters(kernel), groups.get("file") or "", int(groups.get("line") or 0)
    return "", "", 0


def _without_parameters(kernel: str) -> str:
    """``scale<float>`` of ``scale<float>(const float *, int)``."""
    depth = 0
    for position, letter in enumerate(kernel):
        if letter == "(" and depth == 0 and position:
            return kernel[:position]
        depth += {"<": 1, ">": -1}.get(letter, 0)
    return kernel


def _line(file: str, line: int, sources: Mapping[str, str] | None) -> str:
    """The text of a source line, if the file is one of ``sources``."""
    for name, text in (sources or {}).items():
        if line and Path(name).name == Path(file).name:
            lines = text.splitlines()
            return lines[line - 1].strip() if line <= len(lines) else ""
    return ""
