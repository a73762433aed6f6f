"""How many whole programs of other projects run by ``warpwise run`` on a CPU.

    python -m benchmarks.whole_programs FOLDER... [--programs 20] [--seed 0] [--timeout 60] [--jobs 1] [--small]
                                           [--unchecked] [--define NAME] [--json FILE]

Each FOLDER is a checkout of a project. Of its .cu files with a ``main``, ``--programs`` are drawn by ``--seed``. The
sources, macros, include folders and arguments of a program are those that ``make -n`` prints for the Makefile beside
it; without one, a file that is the only one with a ``main`` in its folder is built with the folder's other sources. A
program runs in a temporary copy of its folder, so that it finds its data. With ``--small`` the integers among its
arguments are reduced first (``reduced``), and the arguments as they stand are tried if the program then fails.

pass: status 0, and the program prints that its result is right, or that it counts no wrong value, or its status states
the result (``return right ? EXIT_SUCCESS : EXIT_FAILURE``). no failure: status 0, and the program compares its result
(its sources hold a message about a wrong result, or an assert) but prints no such message. ends: status 0, and the
program does not compare. time limit: ``--timeout`` seconds of CPU time of the process, without the compilers'.
unchecked: pass within the limit without the emulator's checks, but not with them. needs data: the program asks for an
argument or a file, or waives its test on this device.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch  # noqa: F401 - before the forks
from benchmarks import makefiles

from warpwise import cli
from warpwise.cache import atomic_write
from warpwise.cli import kernel_options  # noqa: F401
from warpwise.cuda.program import session  # noqa: F401
from warpwise.cuda.source import includes

_MAIN = re.compile(r"^[ \t]*(?:int|void|auto|signed)?\s*main\s*\([^;{]*\)\s*(?:->\s*int\s*)?\{", re.MULTILINE)
_PASS = re.compile(
    r"\bpass(?:ed|es)?\b|success|\bcorrect|\bmatch(?:es|ed)?\b|test ok|\bOK\b|verified|are the same|\bno errors?\b",
    re.IGNORECASE,
)
_FAIL = re.compile(r"\bfail(?:ed|ure)?\b|incorrect|mismatch|not match|\bwrong\b|do(?:es)? ?n[o']t match", re.IGNORECASE)
# A name of a number of wrong values, or of a difference, up to the number: "Mismatches: ", "Max error = ".
_NUMBER_OF = (
    r"(?<![A-Za-z])(?:{names})(?![^\n:=]*\b(?:at|index|line|element)\b)[^\n:=0-9]{{0,60}}"
    r"(?:threshold of [\d.]+ percent)?[ \t]*(?:[:=]|\bis\b)[ \t]*"
)
_COUNTS = r"mis-?match\w*|non-?matching|errors(?! codes?)|failures|misses"
_DIFFERENCES = r"error\b(?! codes?)|failure\b|failed\b|incorrect\b|wrong\b|differences?\b|max(?:imum)? diff"
_NONE_WRONG = re.compile(
    _NUMBER_OF.format(names=f"{_COUNTS}|{_DIFFERENCES}") + r"[-+]?0(?:\.0+)?(?:e[-+]?\d+)?%?(?![\w.])"
    r"|(?<![\w.])0 (?:errors?|mismatch\w*|failures?|failed|incorrect|wrong|differences?)\b",
    re.IGNORECASE,
)
_SOME_WRONG = re.compile(_NUMBER_OF.format(names=_COUNTS) + r"[1-9]\d*(?![\w.])", re.IGNORECASE)
# The status of the program is its verdict: `return right ? EXIT_SUCCESS : EXIT_FAILURE`.
_STATUS_IS_VERDICT = re.compile(r"\?\s*EXIT_(?:SUCCESS\s*:\s*EXIT_FAILURE|FAILURE\s*:\s*EXIT_SUCCESS)\b")
_FINDING = re.compile(
    r"^(?:OutOfBounds|UninitializedRead|DataRace|ReadOnlyWrite|MisalignedAccess|BarrierDivergence|Deadlock|LaunchError"
    r"|UndefinedBehaviour|KernelAssertion|KernelTimeout|UseAfterFree|DoubleFree|InvalidFree|InvalidCopy|HostAccess|Leak"
    r"|MissingSynchronization|SegmentationFault|CompileError|UnsupportedFeature): .*",
    re.MULTILINE,
)
# The program lacks an argument or a file, or waives its test on this device.
_MISSING = re.compile(
    r"usage|(?:can(?:not|'t)|could not|unable to|failed to) (?:be )?(?:open|read|load|find)|no such file|not found"
    r"|cannot be opened|\bwaiv(?:e|ing)",
    re.IGNORECASE,
)
_COPIED_BYTES = 64 << 20
_WRITTEN_BYTES = 1 << 30
_WALL = 10  # limit of the wall-clock time, in limits of the CPU time: other processes may use the machine
# A message about a wrong result, not about a call, a file or memory that failed.
_OWN_CHECK = re.compile(
    r"""\bassert\s*\(|"(?![^"\n]*(?:cuda|memory|open|file|launch|device|argument|usage|abort))[^"\n]*"""
    r"""\b(?:fail(?:ed|ure)?|incorrect|mismatch|wrong|error at|not (?:match|equal|the same)|don\\?'t match|differ)\b"""
    r"""[^"\n]*\"""",
    re.IGNORECASE,
)
_COLUMNS = ("pass", "unchecked", "no failure", "ends", "finding", "fails", "refused", "time limit", "needs data")


@dataclass
class Result:
    """``outcome`` is one of ``_COLUMNS``; ``reason`` is the first line of what was refused or found.

    ``seconds`` are of CPU time, with the compilers'. ``arguments`` are the program's.
    ``printed`` holds the ends of its standard output and of the error output.
    """

    project: str
    program: str
    outcome: str
    reason: str
    seconds: float
    arguments: list[str]
    printed: list[str]


@dataclass(frozen=True)
class Options:
    """``timeout`` is in seconds of CPU time. With ``small``, reduced arguments are tried first.

    With ``unchecked`` a program that meets the limit runs again without checks.
    """

    timeout: float
    small: bool
    define: tuple[str, ...] = ()
    checks: str = "all"
    unchecked: bool = False


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


def home(program: Path) -> Path:
    """The folder of the Makefile that builds the program, its own or the one above; else its own."""
    above = program.parent.parent
    return above if program in makefiles.recipe(above).sources else program.parent


def sources(program: Path) -> list[Path]:
    """The program, with the other sources of its Makefile, or of its folder if no other file there defines ``main``."""
    others = [path for path in makefiles.recipe(home(program)).sources if path != program]
    if program not in makefiles.recipe(home(program)).sources:
        others = [path for path in sorted(program.parent.iterdir()) if path.suffix in (".cu", ".cpp", ".cc")]
        others = [path for path in others if path != program and path.is_file()]
    if any(_MAIN.search(path.read_text(errors="replace")) for path in others):
        return [program]
    texts = [path.read_text(errors="replace") for path in (program, *others)]
    return [program, *(path for path in others if not any(f'"{path.name}"' in text for text in texts))]


def arguments(program: Path) -> tuple[str, ...]:
    """The program's arguments in the Makefile: those of the command of its name, or of the first one."""
    runs = makefiles.recipe(home(program)).runs
    return next((each for name, each in runs if name.partition(".")[0] == program.stem), runs[0][1] if runs else ())


def run_each(pair: tuple[Path, Path], options: Options) -> Result:
    return run(*pair, options)


def run(project: Path, program: Path, options: Options) -> Result:
    """Run one program by ``warpwise run`` and class what it did."""
    given = arguments(program)
    smaller = makefiles.reduced(given, program.read_text(errors="replace")) if options.small else given
    result = run_with(project, program, smaller, options)
    if result.outcome == "time limit" and options.unchecked and compares(program):
        unchecked = run_with(project, program, smaller, replace(options, checks="none"))
        return replace(unchecked, outcome="unchecked") if unchecked.outcome == "pass" else result
    if smaller != given and result.outcome in ("fails", "finding", "needs data"):
        unreduced = run_with(project, program, given, options)
        return result if unreduced.outcome == "time limit" else unreduced
    return result


def run_with(project: Path, program: Path, given: Sequence[str], options: Options) -> Result:
    built = makefiles.recipe(home(program))
    command = ["warpwise", "run", *map(str, sources(program)), "--device", "cpu"]
    command += [word for each in (*built.define, *options.define) for word in ("-D", each)]
    command += [word for each in built.include for word in ("-I", str(each))]
    command += [f"-X={each}" for each in built.flags] + ["--checks", options.checks, "--", *given]
    with tempfile.TemporaryDirectory(prefix="warpwise-") as made:
        where = copied(home(program), Path(made) / "tree")
        status, seconds = started(command, where, Path(made), options.timeout)
        printed = (Path(made) / "out").read_text(errors="replace")
        messages = (Path(made) / "err").read_text(errors="replace")
    outcome, reason = classed(status, printed, messages)
    if outcome == "ends" and _STATUS_IS_VERDICT.search(program.read_text(errors="replace")):
        outcome = "pass"
    if outcome == "ends" and compares(program):
        outcome = "no failure"
    name = str(program.relative_to(project))
    return Result(
        project.name, name, outcome, reason, round(seconds, 1), list(given), [printed[-8000:], messages[-8000:]]
    )


def started(command: Sequence[str], where: Path, outputs: Path, timeout: float) -> tuple[int | None, float]:
    """Run ``warpwise`` in a fork of this process, which has imported torch: the status, None at the limit, and seconds.

    The seconds are CPU time, that of compilers included.
    """
    process = os.fork()
    if not process:
        os.setsid()
        for descriptor, path in enumerate((Path(os.devnull), outputs / "out", outputs / "err")):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "rw"[n > 0]) for n in range(3))
        resource.setrlimit(resource.RLIMIT_CPU, (int(timeout), int(timeout)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_WRITTEN_BYTES, _WRITTEN_BYTES))
        os.chdir(where)
        sys.argv = list(command)
        try:
            cli.main()
        finally:
            os._exit(2)
    until = time.monotonic() + _WALL * timeout
    while True:
        ended, status, usage = os.wait4(process, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            limited = code in (-signal.SIGKILL, -signal.SIGXCPU)
            return None if limited else code, usage.ru_utime + usage.ru_stime
        if time.monotonic() > until:
            os.killpg(process, signal.SIGKILL)
        time.sleep(0.02)


def copied(folder: Path, tree: Path) -> Path:
    """A copy of ``folder`` in ``tree``, with links to what is beside it and beside its parent: ``../data`` is found."""
    where = tree / folder.parent.name / folder.name
    where.parent.mkdir(parents=True)
    for original, made in ((folder.parent, where.parent), (folder.parent.parent, tree)):
        for each in original.iterdir():
            if each not in (folder, folder.parent) and not (made / each.name).exists():
                (made / each.name).symlink_to(each)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size < _COPIED_BYTES:
        shutil.copytree(folder, where, symlinks=True, ignore_dangling_symlinks=True)
    else:
        where.mkdir()
    return where


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
    remarks, none_wrong = _NONE_WRONG.subn("", printed)
    if status == 0 and not _FAIL.search(remarks) and not _SOME_WRONG.search(remarks):
        return ("pass" if none_wrong or _PASS.search(remarks) else "ends"), ""
    text = (printed + messages).strip()
    if _MISSING.search(text):
        return "needs data", text.rpartition("\n")[2]
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
    parser.add_argument("--small", action="store_true", help="try reduced integers of the Makefile's arguments first")
    parser.add_argument("--define", action="append", default=[], help="a macro for all programs")
    parser.add_argument("--checks", default="all", help="the same option as of `warpwise run`")
    parser.add_argument("--unchecked", action="store_true", help="at the time limit, run once more without checks")
    parser.add_argument("--only", type=re.compile, help="a regular expression that the program's path contains")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    drawn = []
    for folder in given.folders:
        found = [path for path in programs(folder.resolve()) if not given.only or given.only.search(str(path))]
        chosen = random.Random(given.seed).sample(found, min(given.programs, len(found)))
        drawn += [(folder.resolve(), path) for path in sorted(chosen)]
    results = []
    options = Options(given.timeout, given.small, tuple(given.define), given.checks, given.unchecked)
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        for result in pool.imap(functools.partial(run_each, options=options), drawn):
            results.append(result)
            where = f"{result.project}/{result.program}"
            print(f"{result.outcome:12} {result.seconds:6.1f} s  {where}  {result.reason}", flush=True)
            if given.json:
                atomic_write(given.json, json.dumps([asdict(each) for each in results], indent=1))
    print(table(results))


if __name__ == "__main__":
    main()
