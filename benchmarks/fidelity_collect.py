"""Measures every rung's launches: by ncu in one process, and their times without it in another."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time as host
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.fidelity_points import Kind, Problem, Selection, problems
from benchmarks.fidelity_record import Record, Recorded

from warpwise import registry
from warpwise.cuda import nvrtc
from warpwise.lab.errors import MeasurementError
from warpwise.lab.profile.ncu import CapturedLaunch, NcuError, NcuNotFound, NcuPermission, captured, profiled, tool
from warpwise.lab.profile.ncu.measure import environment as import_path
from warpwise.lab.profile.ncu.metrics import DEFAULT, EVERYTHING, STORES
from warpwise.lab.profile.ncu.table import Measured
from warpwise.lab.timing import time
from warpwise.lab.timing.compare import timer_for
from warpwise.lab.timing.environment import environment
from warpwise.lab.timing.samples import Timer
from warpwise.registry import Op, Rung

ROOT = Path(__file__).resolve().parents[1]
KINDS: tuple[Kind, ...] = ("exact", "large")
# Counters of rewritten machine code slow a kernel down a hundredfold: small points alone have them.
METRICS = {"exact": EVERYTHING, "large": DEFAULT}
# What a specification, a compiler or a launch raises: the other rungs are measured all the same.
FAILURES = (RuntimeError, ValueError, TypeError, LookupError, OSError)
TIME_BUDGET = 0.25  # seconds a launch
LIMITS = {"compile": 240.0, "time": 240.0, "profile": 400.0}  # seconds a process


def child(mode: str, names: str, kind: Kind, chosen: Selection, out: Path) -> None:
    """In a process of its own: run every point of ``kind`` of some operations, and write to ``out`` what was launched.

    A rung that fails is written down and leaves the others; one that breaks the GPU's context ends the process.
    """
    device = torch.device("cuda", torch.cuda.current_device())
    timer = timer_for(device) if mode == "time" else None
    found: dict[str, Any] = {
        "environment": {**environment(device), "nvrtc": nvrtc.toolchain()[0]},
        "launches": [],
        "failures": [],
    }
    for problem in [problem for name in names.split(",") for problem in problems(registry.get(name), kind, chosen)]:
        try:
            args = problem.arguments(device)
            taking = problem.rungs(*args)
        except FAILURES:
            found["failures"].append(f"{mode} {problem}: {traceback.format_exc(limit=-1)}")
            continue
        for rung in taking:
            try:
                found["launches"] += measured_launches(problem, rung, args, mode, timer)
            except FAILURES:
                found["failures"].append(f"{mode} {problem} {rung.name}: {traceback.format_exc(limit=-1)}")
            out.write_text(json.dumps(found))
        del args
        torch.cuda.empty_cache()


def measured_launches(
    problem: Problem, rung: Rung, args: Sequence[Any], mode: str, timer: Timer | None
) -> list[dict[str, Any]]:
    """Run a rung once to warm up, then once while its launches are written down, and timed or profiled."""
    op = problem.op
    outputs = op.spec.outputs(*args)
    op.launch(rung, outputs, *args)
    torch.cuda.synchronize()
    if mode == "compile":
        return []
    with captured(profiled if mode == "profile" else contextlib.nullcontext) as launches:
        op.launch(rung, outputs, *args)
    torch.cuda.synchronize()
    key, device = problem.key(rung), outputs_device(outputs)
    return [
        {**key, **shape(index, launch, rung, device), "time": timed(launch, device, timer) if timer else None}
        for index, launch in enumerate(launches)
    ]


def outputs_device(outputs: Any) -> torch.device:
    return outputs.device if isinstance(outputs, torch.Tensor) else outputs[0].device


def shape(index: int, launch: CapturedLaunch, rung: Rung, device: torch.device) -> dict[str, Any]:
    """A launch as a record has it."""
    compiled = launch.launcher.kernel.on_gpu(device).compiled
    return {
        "index": index, "expression": launch.expression, "symbol": compiled.symbol, "source": rung.source.name,
        "grid": launch.launcher.grid, "block": launch.launcher.block, "shared_bytes": launch.launcher.shared_bytes,
        "static_shared": compiled.shared, "registers": compiled.registers,
    }  # fmt: skip


def timed(launch: CapturedLaunch, device: torch.device, timer: Timer) -> dict[str, Any]:
    """The time of this launch alone, as the lab takes it."""
    timing = time(launch, device=device, timer=timer, budget_s=TIME_BUDGET, precision=0.01).to_json()
    return {
        name: timing[name] for name in ("median_s", "low_s", "high_s", "samples", "clock_mhz", "throttled", "exposed")
    }


def collect(
    ops: Sequence[Op], chosen: Selection, out: Path, jobs: int, say: Callable[[str], None]
) -> dict[str, Record]:
    """Measure the operations one after another and write ``out/OP.json`` after each; what fails is said and recorded.

    Raises ``NcuNotFound`` and ``NcuPermission``, which no other operation would escape.
    """
    out.mkdir(parents=True, exist_ok=True)
    version = tool.version(tool.find())
    say(f"ncu {version}; compiling the kernels of {len(ops)} operations, {jobs} at a time")
    start = host.perf_counter()
    with ThreadPoolExecutor(jobs) as pool:
        tasks = [(op, kind) for op in ops for kind in KINDS]
        for problem in pool.map(lambda task: _run("compile", task[0].name, task[1], chosen)[1], tasks):
            if problem:
                say(problem)
    say(f"compiled in {host.perf_counter() - start:.0f} s")
    made = {}
    for op in ops:
        record = made[op.name] = Record(op.name)
        if chosen.rungs and (kept := out / f"{op.name}.json").exists():
            record = made[op.name] = Record.load(kept).without(chosen.rungs)
        for kind in KINDS:
            start = host.perf_counter()
            _measure(record, op, kind, chosen)
            count = sum(launch.kind == kind for launch in record.launches)
            say(f"{op.name} {kind}: {count} launches in {host.perf_counter() - start:.0f} s")
        record.environment["ncu"] = version
        record.failures += measure_stores([record], chosen)
        record.save(out / f"{op.name}.json")
        for failure in record.failures:
            say(f"  failed: {failure}")
    return made


def measure_stores(records: Sequence[Record], chosen: Selection) -> list[str]:
    """Measure the counters of global stores at the exact points once more, in one pass, and put them into the records.

    Returns what went wrong.
    """
    launched, problem, found = _profile(",".join(record.op for record in records), "exact", chosen, STORES)
    failures = [*launched["failures"], *([problem] if problem else [])]
    try:
        made = {launch.key: launch for launch in joined(launched["launches"], found, {})}
    except MeasurementError as error:
        return [*failures, f"stores: {error}"]
    for record in records:
        record.launches = [
            replace(launch, metrics={**launch.metrics, **made[launch.key].metrics}) if launch.key in made else launch
            for launch in record.launches
        ]
    return failures


def _measure(record: Record, op: Op, kind: Kind, chosen: Selection) -> None:
    """Add to ``record`` what is measured of an operation at the points of one kind."""
    times, problem = _run("time", op.name, kind, chosen)
    record.failures += [*times["failures"], *([problem] if problem else [])]
    record.environment.update(times["environment"])
    launched, problem, found = _profile(op.name, kind, chosen, METRICS[kind])
    record.failures += [*launched["failures"], *([problem] if problem else [])]
    timed = {_key(launch): launch["time"] for launch in times["launches"]}
    try:
        record.launches += joined(launched["launches"], found, timed)
    except MeasurementError as error:
        record.failures.append(f"profile {op.name} {kind}: {error}")
        return
    for measured in found:
        record.units.update(measured.units)
        record.texts.update({name: text for name, text in measured.texts.items() if name.startswith("breakdown:")})


def joined(
    launched: Sequence[dict[str, Any]], found: Sequence[Measured], timed: dict[tuple[Any, ...], Any]
) -> list[Recorded]:
    """Each launch with its metrics and its time. Raises ``NcuError`` where ncu saw another sequence of kernels."""
    names = [launch["symbol"] for launch in launched]
    if names != [measured.kernel for measured in found]:
        seen = [measured.kernel for measured in found]
        at = next((i for i, (a, b) in enumerate(zip(names, seen)) if a != b), min(len(names), len(seen)))  # noqa: B905
        there = seen[at] if at < len(seen) else "nothing"
        raise NcuError(
            f"ncu measured {len(seen)} kernels of {len(names)} launched; number {at} is {there}, expected "
            f"{names[at] if at < len(names) else 'nothing'}"
        )
    made = []
    for launch, measured in zip(launched, found, strict=True):
        if tuple(launch["grid"]) != measured.grid or tuple(launch["block"]) != measured.block:
            raise NcuError(
                f"{launch['expression']}: launched {launch['grid']} x {launch['block']}, ncu saw {measured.grid} x {measured.block}"
            )
        recorded = Recorded(**{**launch, "grid": tuple(launch["grid"]), "block": tuple(launch["block"])})
        made.append(replace(recorded, metrics=measured.metrics, time=timed.get(_key(launch))))
    return made


def _key(launch: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(launch[name] for name in ("op", "rung", "dtype", "case", "kind", "index"))


def _command(mode: str, names: str, kind: Kind, chosen: Selection, out: Path) -> list[str]:
    more = [part for name in chosen.dtypes for part in ("--dtype", name)]
    more += [part for name in chosen.rungs for part in ("--rung", name)]
    return [sys.executable, str(ROOT / "benchmarks" / "fidelity.py"), "child", mode, names, kind, str(out), *more]


def _run(mode: str, names: str, kind: Kind, chosen: Selection) -> tuple[dict[str, Any], str]:
    """What a child wrote, and what went wrong with it if anything did."""
    with tempfile.TemporaryDirectory(prefix="warpwise_fidelity_") as folder:
        out = Path(folder) / "launches.json"
        try:
            done = subprocess.run(
                _command(mode, names, kind, chosen, out),
                capture_output=True,
                text=True,
                timeout=LIMITS[mode],
                check=False,
            )
            problem = (
                f"{mode} {names} {kind} ended with {done.returncode}: {done.stderr[-1500:]}" if done.returncode else ""
            )
        except subprocess.TimeoutExpired:
            problem = f"{mode} {names} {kind} did not finish within {LIMITS[mode]:.0f} s"
        return _written(out), problem


def _profile(
    names: str, kind: Kind, chosen: Selection, metrics: Sequence[str]
) -> tuple[dict[str, Any], str, list[Measured]]:
    with tempfile.TemporaryDirectory(prefix="warpwise_fidelity_") as folder:
        out = Path(folder) / "launches.json"
        command = _command("profile", names, kind, chosen, out)
        try:
            found = tool.profile(command, metrics, environment=import_path(), timeout=LIMITS["profile"])
        except (NcuNotFound, NcuPermission):
            raise
        except NcuError as error:
            return {"launches": [], "failures": _written(out)["failures"]}, f"profile {names} {kind}: {error}", []
        return _written(out), "", found


def _written(out: Path) -> dict[str, Any]:
    if not out.exists():
        return {"environment": {}, "launches": [], "failures": []}
    return json.loads(out.read_text())
