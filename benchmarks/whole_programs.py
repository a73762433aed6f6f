"""How many whole programs of other projects run by ``warpwise run`` on a CPU.

    python benchmarks/whole_programs.py FOLDER... [--programs 20] [--seed 0] [--timeout 60] [--jobs 1] [--json FILE]

Each FOLDER is a checkout of a project. Of its .cu files with a ``main``, ``--programs`` are drawn by ``--seed``. A file
that is the only one with a ``main`` in its folder is built with the folder's other sources. Arguments are those of the
``run`` target of a Makefile. A program runs in a temporary copy of its folder, so that it finds its data.

pass: status 0, and the program prints that its result is right. no failure: status 0, and the program compares its
result (its sources hold a message about a wrong result, or an assert) but prints no such message. ends: status 0, and
the program does not compare. time limit: ``--timeout`` seconds of CPU time of the process, without the compilers'.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from warpwise.cache import atomic_write
from warpwise.cuda.source import includes

_MAIN = re.compile(r"^[ \t]*(?:int|void|auto|signed)?\s*main\s*\([^;{]*\)\s*(?:->\s*int\s*)?\{", re.MULTILINE)
_RUN = re.compile(r"^\t.*?\./(?:\$\((?:program|PROGRAM|EXECUTABLE|TARGET)\)|\w+)[ \t]*([^\n]*)$", re.MULTILINE)
_PASS = re.compile(r"\bpass(?:ed|es)?\b|success|\bcorrect|\bmatch|test ok|\bOK\b|verified|are the same", re.IGNORECASE)
_FAIL = re.compile(r"\bfail(?:ed|ure)?\b|incorrect|mismatch|not match|\bwrong\b|do(?:es)? ?n[o']t match", re.IGNORECASE)
_FINDING = re.compile(
    r"^(?:OutOfBounds|UninitializedRead|DataRace|ReadOnlyWrite|MisalignedAccess|BarrierDivergence|Deadlock|LaunchError"
    r"|UndefinedBehaviour|KernelAssertion|KernelTimeout|UseAfterFree|DoubleFree|InvalidFree|InvalidCopy|HostAccess|Leak"
    r"|MissingSynchronization|SegmentationFault|CompileError|UnsupportedFeature): .*",
    re.MULTILINE,
)
_COPIED_BYTES = 64 << 20
_WALL = 10  # limit of the wall-clock time, in limits of the CPU time: other processes may use the machine
# A message about a wrong result, not about a call, a file or memory that failed.
_OWN_CHECK = re.compile(
    r"""\bassert\s*\(|"(?![^"\n]*(?:cuda|memory|open|file|launch|device|argument|usage|abort))[^"\n]*"""
    r"""\b(?:fail(?:ed|ure)?|incorrect|mismatch|wrong|error at|not (?:match|equal|the same)|don\\?'t match|differ)\b"""
    r"""[^"\n]*\"""",
    re.IGNORECASE,
)
_COLUMNS = ("pass", "no failure", "ends", "finding", "fails", "refused", "time limit", "data missing")


@dataclass
class Result:
    """``outcome`` is one of ``_COLUMNS``; ``reason`` is the first line of what was refused or found."""

    project: str
    program: str
    outcome: str
    reason: str
    seconds: float


def programs(folder: Path) -> list[Path]:
    """The .cu files of a project that define ``main`` and are not HIP programs."""
    files = (path for path in folder.rglob("*.cu") if path.is_file())
    texts = ((path, path.read_text(errors="replace")) for path in files)
    return sorted(path for path, text in texts if _MAIN.search(text) and "<hip/hip_runtime.h>" not in text)


def compares(program: Path) -> bool:
    """True if the sources, or headers of the project, hold a message about a wrong result or an assert."""
    for path in sources(program):
        text = path.read_text(errors="replace")
        folders = [path.parent, *includes.project_folders(path, text, [path.parent])]
        if any(_OWN_CHECK.search(each) for each in (text, *includes.included(text, folders).values())):
            return True
    return False


def sources(program: Path) -> list[Path]:
    """The program, with its folder's other sources if no other file there defines ``main``."""
    others = [path for path in sorted(program.parent.iterdir()) if path.suffix in (".cu", ".cpp", ".cc")]
    others = [path for path in others if path != program and path.is_file()]
    if any(_MAIN.search(path.read_text(errors="replace")) for path in others):
        return [program]
    texts = [path.read_text(errors="replace") for path in (program, *others)]
    return [program, *(path for path in others if not any(f'"{path.name}"' in text for text in texts))]


def arguments(program: Path) -> list[str]:
    """The program's arguments in the ``run`` target of the Makefile beside it."""
    makefile = program.parent / "Makefile"
    found = _RUN.search(makefile.read_text(errors="replace")) if makefile.is_file() else None
    words = found[1].strip() if found else ""
    return [] if re.search(r"[$|<>&;`]", words) else shlex.split(words)


def run(project: Path, program: Path, timeout: float) -> Result:
    """Run one program by ``warpwise run`` and class what it did."""
    start = time.monotonic()
    command = [sys.executable, "-m", "warpwise", "run", *map(str, sources(program)), "--device", "cpu"]
    command += ["--", *arguments(program)]
    with tempfile.TemporaryDirectory(prefix="warpwise-") as made:
        size = sum(path.stat().st_size for path in program.parent.rglob("*") if path.is_file())
        where = Path(made) / "run"
        if size < _COPIED_BYTES:
            shutil.copytree(program.parent, where, symlinks=True, ignore_dangling_symlinks=True)
        else:
            where.mkdir()
        with (Path(made) / "out").open("w+") as out, (Path(made) / "err").open("w+") as err:
            process = subprocess.Popen(
                command, cwd=where, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (int(timeout), int(timeout)))
            try:
                status = process.wait(_WALL * timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = None
                process.wait()
            status = None if status in (-signal.SIGKILL, -signal.SIGXCPU) else status
        printed = (Path(made) / "out").read_text(errors="replace")
        messages = (Path(made) / "err").read_text(errors="replace")
    outcome, reason = classed(status, printed, messages)
    if outcome == "ends" and compares(program):
        outcome = "no failure"
    name = str(program.relative_to(project))
    return Result(project.name, name, outcome, reason, round(time.monotonic() - start, 1))


def classed(status: int | None, printed: str, messages: str) -> tuple[str, str]:
    """The outcome of a run, one of ``_COLUMNS``, and its reason."""
    found = _FINDING.search(messages)
    first = found[0] if found else ""
    error = re.search(r"(?:fatal error|error): .*", messages)
    if status is None:
        return "time limit", first
    if status == 2 and ("CompileError" in messages or "UnsupportedFeature" in messages or "Traceback" in messages):
        return "refused", error[0] if error else first or messages.strip().rpartition("\n")[2]
    if first:
        return ("refused" if first.startswith("UnsupportedFeature") else "finding"), first
    if status == 0 and not _FAIL.search(printed):
        return ("pass" if _PASS.search(printed) else "ends"), ""
    text = (printed + messages).strip()
    if re.search(r"usage|cannot open|can't open|unable to open|no such file|not found", text, re.IGNORECASE):
        return "data missing", text.rpartition("\n")[2]
    return "fails", f"status {status}: {text.rpartition(chr(10))[2][:160]}"


def table(results: Sequence[Result]) -> str:
    """A Markdown table of the outcomes by project."""
    lines = [f"| project | programs | {' | '.join(_COLUMNS)} |", "|---|---:|" + "---:|" * len(_COLUMNS)]
    for project in [*dict.fromkeys(each.project for each in results), "all"]:
        own = [each for each in results if project in ("all", each.project)]
        counts = Counter(each.outcome for each in own)
        lines.append(f"| {project} | {len(own)} | {' | '.join(str(counts[column]) for column in _COLUMNS)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    drawn = []
    for folder in given.folders:
        found = programs(folder.resolve())
        chosen = random.Random(given.seed).sample(found, min(given.programs, len(found)))
        drawn += [(folder.resolve(), path) for path in sorted(chosen)]
    results = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for result in pool.map(lambda pair: run(*pair, given.timeout), drawn):
            results.append(result)
            where = f"{result.project}/{result.program}"
            print(f"{result.outcome:12} {result.seconds:6.1f} s  {where}  {result.reason}", flush=True)
            if given.json:
                atomic_write(given.json, json.dumps([asdict(each) for each in results], indent=1))
    print(table(results))


if __name__ == "__main__":
    main()
