"""Measures hardware counters, latencies and throughputs, one kernel for each question.

benchmarks/microbenchmarks/run.py --out benchmarks/results/h200      # on a machine with a GPU and ncu

Writes microbenchmarks.json: the lanes' addresses and ncu's counters for every question, and latencies and throughputs
in cycles. `compare`, which needs no GPU, adds the emulated counters.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time as host
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import click
import numpy as np
import torch
from benchmarks.microbenchmarks.questions import Question, all_questions

from warpwise import cache, cuda
from warpwise.lab.errors import MeasurementError
from warpwise.lab.profile.ncu import Measured, NcuError, NcuNotFound, NcuPermission, tool
from warpwise.lab.profile.ncu.metrics import CACHES, GLOBAL, SHARED, SOURCE

HERE = Path(__file__).parent
SCHEMA = 1
RECORD = ROOT / "benchmarks" / "results" / "h200" / "microbenchmarks.json"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts.sum"  # of L1 lines too, with some of the rest of the kernel
METRICS = {
    "shared": SHARED,
    "global": (
        *GLOBAL,
        WAVEFRONTS,
        *(name for name in CACHES if name.startswith("lts__t_sectors_srcunit_tex") or "_op_" in name),
    ),
    "source": SOURCE,
}
CONSTANTS = ("active", "offsets")
BUFFER = 1 << 16  # bytes of the array that patterns index
SHOWN = 8  # differences of one metric
LIMIT = 240.0  # seconds a process
MODULES: dict[str, cuda.Module] = {}


def module(file: str) -> cuda.Module:
    """The kernels of one file. Each question sets the file's constants."""
    if file not in MODULES:
        MODULES[file] = cuda.load(HERE / file)
    return MODULES[file]


def asked(group: str) -> list[Question]:
    """The questions of a group."""
    questions = all_questions()
    return [question for question in questions if (question.source if group == "source" else question.group == group)]


def prepare(question: Question, device: torch.device) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """The launch of a question and its arguments, with its addresses in constant memory."""
    loaded = module(question.file)
    loaded.set_constant("offsets", torch.tensor(question.offsets, dtype=torch.int32))
    loaded.set_constant("active", np.uint32(question.active))
    made = {
        "out": torch.zeros(2048, dtype=torch.int32, device=device).view(torch.uint32),
        "data": torch.zeros(BUFFER, dtype=torch.uint8, device=device),
        "counter": torch.zeros(1, dtype=torch.int32, device=device).view(torch.uint32),
        "sum": torch.zeros(1, dtype=torch.float32, device=device),
    }
    arguments = tuple(made[name] for name in question.arguments)
    if question.kernel == "spilled<>":
        arguments = made["out"], made["data"].view(torch.uint32)
    return loaded[question.kernel][1, question.threads], arguments


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for microbenchmarks.json.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=12, show_default=True, help="Number of compiling processes."
)
@click.option(
    "--only", multiple=True, type=click.Choice(["time", *METRICS]), help="Measure this part again and keep the rest."
)
@click.pass_context
def cli(context: click.Context, out: Path | None, jobs: int, only: tuple[str, ...]) -> None:
    """Measure on a GPU with ncu, and write OUT/microbenchmarks.json."""
    if context.invoked_subcommand:
        return
    if out is None:
        raise click.UsageError("expected --out, the folder for microbenchmarks.json")
    try:
        sys.exit(measure(out / "microbenchmarks.json", jobs, only))
    except MeasurementError as error:
        raise click.ClickException(str(error)) from error


def measure(path: Path, jobs: int, only: Sequence[str] = ()) -> int:
    """Compile, time, then profile each group, and write the file after each. Returns the number of failed parts.

    ``only`` names the parts to measure again in an existing file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    version = tool.version(tool.find())
    start, failures = host.perf_counter(), list[str]()
    with ThreadPoolExecutor(jobs) as pool:
        failures += filter(None, pool.map(lambda part: _compile(part, jobs), range(jobs)))
    _say(f"compiled in {host.perf_counter() - start:.0f} s")
    record: dict[str, Any] = (
        json.loads(path.read_text()) if only and path.exists() else {"schema": SCHEMA, "questions": {}}
    )
    record["ncu"] = version
    for question in all_questions():
        asked_of = record["questions"].setdefault(question.name, {"measured": {}})
        asked_of |= {
            "kernel": question.kernel,
            "file": question.file,
            "offsets": question.offsets,
            "active": question.active,
        }
    if not only or "time" in only:
        start = host.perf_counter()
        timed, problem = _timed()
        failures += [problem] if problem else []
        record |= timed
        _say(f"timed in {host.perf_counter() - start:.0f} s")
        cache.atomic_write(path, dumped({**record, "failures": failures}))
    for group, metrics in METRICS.items():
        start = host.perf_counter()
        questions = asked(group)
        if only and group not in only:
            continue
        try:
            found = tool.profile(_command("profile", group), metrics, timeout=LIMIT)
            join(record, questions, found)
            there = set().union(*(measured.metrics for measured in found))
            record["absent"] = sorted({*record.get("absent", ()), *metrics} - there)
        except (NcuNotFound, NcuPermission):
            raise
        except NcuError as error:
            failures.append(f"{group}: {error}")
        _say(f"{group}: {len(questions)} questions in {host.perf_counter() - start:.0f} s")
        cache.atomic_write(path, dumped({**record, "failures": failures}))
    for failure in failures:
        _say(f"failed: {failure}")
    return len(failures)


def join(record: dict[str, Any], questions: list[Question], found: list[Measured]) -> None:
    """Add the measured counters to the questions, without those that are zero."""
    if len(found) != len(questions):
        raise NcuError(f"ncu measured {len(found)} launches of {len(questions)}")
    for question, measured in zip(questions, found, strict=True):
        name = question.kernel.partition("<")[0]
        if name not in measured.kernel:
            raise NcuError(f"ncu measured {measured.kernel}, expected {question.kernel}")
        counted = {
            metric: int(value) if value == int(value) else value for metric, value in measured.metrics.items() if value
        }
        record["questions"][question.name]["measured"].update(counted)
    record.setdefault("available", {})[questions[0].group if questions else ""] = (
        sorted(found[0].metrics) if found else []
    )


def dumped(record: dict[str, Any]) -> str:
    """The record as JSON, one line for each question."""
    questions = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in record["questions"].items()]
    head = json.dumps({name: value for name, value in record.items() if name != "questions"}, indent=1).removesuffix(
        "\n}"
    )
    return head + ',\n "questions": {\n' + ",\n".join(questions) + "\n }\n}\n"


def _say(text: str) -> None:
    click.echo(text)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, str(Path(__file__)), *arguments]


def _compile(part: int, parts: int) -> str:
    done = subprocess.run(
        _command("compile", str(part), str(parts)), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    return f"compile {part}: {done.stderr[-1500:]}" if done.returncode else ""


def _timed() -> tuple[dict[str, Any], str]:
    with tempfile.TemporaryDirectory(prefix="warpwise_microbenchmarks_") as folder:
        out = Path(folder) / "times.json"
        done = subprocess.run(_command("time", str(out)), capture_output=True, text=True, timeout=LIMIT, check=False)
        found = json.loads(out.read_text()) if out.exists() else {}
        return found, f"time: {done.stderr[-1500:]}" if done.returncode else ""


@cli.command()
@click.option(
    "--record", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=RECORD, show_default=True
)
def compare(record: Path) -> None:
    """Count every question on the CPU, add the counters to the file, and print the differences."""
    from warpwise.lab.explain import Options, explain_launch

    data = json.loads(record.read_text())
    differing: dict[str, list[str]] = {}
    for question in all_questions():
        entry = data["questions"].get(question.name)
        if entry is None:
            continue
        launch, arguments = prepare(question, torch.device("cpu"))
        explained = explain_launch(launch, arguments, None, Options(checks="none", blocks="all"))
        entry["emulated"] = {}
        for metric, value in explained.metrics.items():
            if metric not in METRICS[question.group] or metric in data.get("absent", ()):
                continue
            measured = entry["measured"].get(metric, 0)
            if value:
                entry["emulated"][metric] = int(value)
            if value != measured:
                differing.setdefault(metric, []).append(f"{question.name}: {value:.0f}, measured {measured}")
    cache.atomic_write(record, dumped(data))
    for metric, where in sorted(differing.items()):
        click.echo(f"{metric}: {len(where)}\n    " + "\n    ".join(where[:SHOWN]))
    wrong = {text.partition(":")[0] for where in differing.values() for text in where}
    click.echo(f"{len(data['questions']) - len(wrong)} of {len(data['questions'])} questions agree in every metric")


@cli.command("compile", hidden=True)
@click.argument("part", type=int)
@click.argument("parts", type=int)
def compile_part(part: int, parts: int) -> None:
    """Compile every ``parts``-th kernel into the cache."""
    from benchmarks.microbenchmarks import timing

    from warpwise.cuda.gpu import nvrtc
    from warpwise.device import profile_of

    target = profile_of(0).name
    kernels = dict.fromkeys((question.file, question.kernel) for question in all_questions())
    for file, kernel in list(kernels)[part::parts]:
        for constants in ((), CONSTANTS):
            nvrtc.compile(module(file), kernel, target, constants)
    for loaded, kernel in timing.expressions()[part::parts]:
        nvrtc.compile(loaded, kernel, target)


@cli.command("time", hidden=True)
@click.argument("out", type=click.Path(path_type=Path))
def time_all(out: Path) -> None:
    """Measure latencies and throughputs, and write OUT after each part."""
    from benchmarks.microbenchmarks import timing

    from warpwise.lab.timing.environment import environment

    found: dict[str, Any] = {"environment": environment(torch.device("cuda", 0))}
    for name, part in (
        ("latencies", timing.latencies),
        ("throughputs", timing.throughputs),
        ("whole_gpu", timing.whole_gpu),
    ):
        found[name] = part()
        out.write_text(json.dumps(found))


@cli.command(hidden=True)
@click.argument("group", type=click.Choice(list(METRICS)))
def profile(group: str) -> None:
    """Launch the questions of a group, each once to warm up and once within a profiled range."""
    from warpwise.lab.profile.ncu import profiled

    device = torch.device("cuda", 0)
    for question in asked(group):
        launch, arguments = prepare(question, device)
        launch(*arguments)
        with profiled():
            launch(*arguments)


if __name__ == "__main__":
    cli()
