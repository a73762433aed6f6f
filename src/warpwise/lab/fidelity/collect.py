"""Measures launches on a GPU: their counters with ncu in one process, their times without it in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpwise.lab.errors import MeasurementError
from warpwise.lab.fidelity.points import Kind, ProfiledPoint
from warpwise.lab.fidelity.record import Record, RecordedLaunch
from warpwise.lab.profile.ncu import NcuError, NcuNotFound, NcuPermission, tool
from warpwise.lab.profile.ncu.measure import environment as import_path
from warpwise.lab.profile.ncu.metrics import DEFAULT, EVERYTHING, STORES
from warpwise.lab.profile.ncu.table import Measured

# ncu patches the machine code for some counters, which makes a kernel a hundred times slower: exact points only.
METRICS: Mapping[Kind, Sequence[str]] = {"exact": EVERYTHING, "large": DEFAULT}
LIMITS = {"compile": 240.0, "time": 240.0, "profile": 400.0}  # seconds a process


@dataclass(frozen=True)
class Children:
    """Starts the processes that launch. ``modules`` are those to import there: they register the operations."""

    modules: tuple[str, ...]

    def command(self, mode: str, points: Sequence[ProfiledPoint], folder: Path) -> list[str]:
        """The command that launches ``points`` and writes ``folder``/launches.json."""
        job = folder / "job.json"
        job.write_text(json.dumps({"modules": self.modules, "points": [point.to_json() for point in points]}))
        return [sys.executable, "-m", "warpwise.lab.fidelity.child", mode, str(job), str(folder / "launches.json")]

    def run(self, mode: str, points: Sequence[ProfiledPoint]) -> tuple[dict[str, Any], str]:
        """The data that a process wrote, and its failure, empty if there is none."""
        with tempfile.TemporaryDirectory(prefix="warpwise_fidelity_") as name:
            command, problem = self.command(mode, points, Path(name)), ""
            try:
                environment = {**os.environ, **import_path()}
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=LIMITS[mode], check=False, env=environment
                )
                if done.returncode:
                    problem = f"{mode} {_named(points)} ended with {done.returncode}: {done.stderr[-1500:]}"
            except subprocess.TimeoutExpired:
                problem = f"{mode} {_named(points)} did not finish within {LIMITS[mode]:.0f} s"
            return _written(Path(name)), problem

    def profile(
        self, points: Sequence[ProfiledPoint], metrics: Sequence[str]
    ) -> tuple[dict[str, Any], str, list[Measured]]:
        """As ``run``, under ncu, and the measured kernels. Raises ``NcuNotFound`` and ``NcuPermission``."""
        with tempfile.TemporaryDirectory(prefix="warpwise_fidelity_") as name:
            command = self.command("profile", points, Path(name))
            try:
                found = tool.profile(command, metrics, environment=import_path(), timeout=LIMITS["profile"])
            except (NcuNotFound, NcuPermission):
                raise
            except NcuError as error:
                failures = _written(Path(name))["failures"]
                return {"launches": [], "failures": failures}, f"profile {_named(points)}: {error}", []
            return _written(Path(name)), "", found


def collect(
    points: Mapping[str, Mapping[Kind, Sequence[ProfiledPoint]]],
    out: Path,
    children: Children,
    *,
    into: bool = False,
    jobs: int = 6,
    report: Callable[[str], None] = print,
) -> dict[str, Record]:
    """Measure the points of each operation, by name and kind, and write ``out/OP.json`` after each operation.

    With ``into`` the launches replace those of the same rungs in the records that ``out`` holds. ``report`` receives a
    line for each step and each failure; failures of a rung are also kept in its record. Raises ``NcuNotFound`` and
    ``NcuPermission``.
    """
    out.mkdir(parents=True, exist_ok=True)
    version = tool.version(tool.find())
    report(f"ncu {version}; compiling the kernels of {len(points)} operations, {jobs} at a time")
    start = time.perf_counter()
    with ThreadPoolExecutor(jobs) as pool:
        tasks = [of_kind for kinds in points.values() for of_kind in kinds.values()]
        for _, problem in pool.map(lambda task: children.run("compile", task), tasks):
            if problem:
                report(problem)
    report(f"compiled in {time.perf_counter() - start:.0f} s")
    records = {}
    for op, kinds in points.items():
        record = Record(op)
        if into and (kept := out / f"{op}.json").exists():
            rungs = {name for of_kind in kinds.values() for point in of_kind for name in point.only}
            record = Record.load(kept).without(sorted(rungs))
        records[op] = record
        for kind, of_kind in kinds.items():
            start = time.perf_counter()
            _measure(record, kind, of_kind, children)
            count = sum(launch.kind == kind for launch in record.launches)
            report(f"{op} {kind}: {count} launches in {time.perf_counter() - start:.0f} s")
        record.environment["ncu"] = version
        record.failures += measure_stores([record], kinds.get("exact", ()), children)
        record.save(out / f"{op}.json")
        for failure in record.failures:
            report(f"  failed: {failure}")
    return records


def measure_stores(records: Sequence[Record], points: Sequence[ProfiledPoint], children: Children) -> list[str]:
    """Measure the counters of global stores at exact ``points`` again, in one pass, and put them into ``records``.

    Returns the failures.
    """
    launched, problem, found = children.profile(points, STORES)
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


def _measure(record: Record, kind: Kind, points: Sequence[ProfiledPoint], children: Children) -> None:
    """Add the times and counters at ``points``, all of one kind, to ``record``."""
    times, problem = children.run("time", points)
    record.failures += [*times["failures"], *([problem] if problem else [])]
    record.environment.update(times["environment"])
    launched, problem, found = children.profile(points, METRICS[kind])
    record.failures += [*launched["failures"], *([problem] if problem else [])]
    timed = {_key(launch): launch["time"] for launch in times["launches"]}
    try:
        record.launches += joined(launched["launches"], found, timed)
    except MeasurementError as error:
        record.failures.append(f"profile {record.op} {kind}: {error}")
        return
    for measured in found:
        record.units.update(measured.units)
        record.texts.update({name: text for name, text in measured.texts.items() if name.startswith("breakdown:")})


def joined(
    launched: Sequence[dict[str, Any]], found: Sequence[Measured], timed: dict[tuple[Any, ...], Any]
) -> list[RecordedLaunch]:
    """Each launch with its metrics and its time. Raises ``NcuError`` if ncu measured another sequence of kernels."""
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
                f"{launch['expression']}: launched with {launch['grid']} x {launch['block']}, "
                f"ncu measured {measured.grid} x {measured.block}"
            )
        recorded = RecordedLaunch(**{**launch, "grid": tuple(launch["grid"]), "block": tuple(launch["block"])})
        made.append(replace(recorded, metrics=measured.metrics, time=timed.get(_key(launch))))
    return made


def _key(launch: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(launch[name] for name in ("op", "rung", "dtype", "case", "kind", "index"))


def _named(points: Sequence[ProfiledPoint]) -> str:
    return ", ".join(dict.fromkeys(f"{point.op.name} {point.kind}" for point in points))


def _written(folder: Path) -> dict[str, Any]:
    out = folder / "launches.json"
    return json.loads(out.read_text()) if out.exists() else {"environment": {}, "launches": [], "failures": []}
