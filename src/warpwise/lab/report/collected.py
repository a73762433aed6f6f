"""An operation's recorded results on one device: times, verdicts, counters and ceilings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from warpwise.cuda.source.includes import source_digest
from warpwise.lab.ladder import Ladder, result_folders
from warpwise.lab.report.counters import NcuCounters, read_counters
from warpwise.lab.store import Measurement, OtherFile, Run, Store, read_results
from warpwise.lab.store.convert import of_gradient, of_point, of_verdict, run_from
from warpwise.lab.store.records import GRADIENT
from warpwise.lab.verify.verdict import dtype_name
from warpwise.operation import Op, Rung

DEFAULT_TARGET = "sm_90"


@dataclass(frozen=True)
class Verified:
    """The verdict on a rung or the gradient on one device.

    ``worst`` is the largest error over its tolerance, NaN if not recorded.
    """

    status: str
    place: str
    date: datetime
    tested: int = 0
    skipped: int = 0
    worst: float = float("nan")
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def on_cpu(self) -> bool:
        """True for a run on a CPU, with GPU kernels emulated."""
        return self.place.startswith("cpu")


@dataclass(frozen=True)
class RecordedRun:
    """One run and its measurements. ``verdicts`` are complete for a file or a climb; ``path`` is the file."""

    run: Run
    measurements: tuple[Measurement, ...]
    verdicts: Mapping[str, Verified] = field(default_factory=dict)
    notes: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    path: Path | None = None

    @property
    def timed(self) -> bool:
        """True if there is a time."""
        return any(one.timed for one in self.measurements)

    @property
    def origin(self) -> str:
        """The origin of the results as text."""
        return self.path.name if self.path else f"results store, run {self.run.id}" if self.run.id else "this climb"


@dataclass(frozen=True)
class MeasuredPoint:
    """The times of one run at one size and dtype. Rungs in ``by_name`` run only if a call names them."""

    case: str
    sizes: Mapping[str, int]
    dtype: str
    run: Run
    entries: tuple[Measurement, ...]
    notes: tuple[str, ...] = ()
    by_name: frozenset[str] = frozenset()

    @property
    def size(self) -> str:
        """``16384 × 8192``; with more than two sizes, each with its name."""
        values = [f"{size}" if len(self.sizes) < 3 else f"{name} {size}" for name, size in self.sizes.items()]
        return (" × " if len(self.sizes) < 3 else ", ").join(values)

    @property
    def rungs(self) -> list[Measurement]:
        """The rungs, timed or not."""
        return [one for one in self.entries if one.kind == "rung"]

    @property
    def opponents(self) -> list[Measurement]:
        """The opponents."""
        return [one for one in self.entries if one.kind == "opponent"]

    @cached_property
    def best(self) -> Measurement | None:
        """The fastest correct rung, without those that run by name only."""
        return _fastest(one for one in self.rungs if one.verdict == "right" and one.name not in self.by_name)

    @cached_property
    def rival(self) -> Measurement | None:
        """The fastest opponent within the tolerance of the rungs."""
        return _fastest(one for one in self.opponents if not one.message)

    def entry(self, name: str) -> Measurement | None:
        """The entry of one rung or opponent."""
        return next((one for one in self.entries if one.name == name), None)


@dataclass(frozen=True)
class Roofs:
    """Measured ceilings: ``bandwidth`` in bytes/s, ``flops`` in FLOP/s by dtype; 0 or absent if not measured."""

    bandwidth: float = 0.0
    flops: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Collected:
    """The content of the page of ``op``, without explanations. ``device`` is the device of the times, or ""."""

    op: Op
    device: str
    points: tuple[MeasuredPoint, ...]
    verdicts: Mapping[str, tuple[Verified, ...]]
    environment: Mapping[str, Any]
    roofs: Roofs = Roofs()
    counters: NcuCounters | None = None
    origins: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def target(self) -> str:
        """The compute capability of the device, which explanations target."""
        return str(self.environment.get("target") or DEFAULT_TARGET)

    @property
    def measured_on_gpu(self) -> bool:
        """True if the times are those of a GPU."""
        return bool(self.points) and not self.device.startswith("cpu")

    @cached_property
    def rungs(self) -> tuple[str, ...]:
        """The names of the rungs in ladder order; rungs that were removed since come last."""
        names = [rung.name for rung in self.op.rungs]
        known = dict.fromkeys(one.name for point in self.points for one in point.rungs)
        return (*names, *(name for name in known if name not in names))

    def rung(self, name: str) -> Rung | None:
        """The rung of that name, or None if it was removed."""
        return next((rung for rung in self.op.rungs if rung.name == name), None)

    def ran(self, name: str, verdict: Verified) -> str:
        """The device of ``verdict`` as text, with "emulated on" for a GPU kernel on a CPU."""
        rung = self.rung(name)
        emulated = verdict.on_cpu and name != GRADIENT and (rung is None or rung.language in ("cuda", "triton"))
        return f"{'emulated on ' if emulated else ''}{verdict.place.removeprefix('cpu: ')}"

    def status(self, name: str) -> str:
        """A rung's status over all devices: "wrong" if any is, else "right" if any is, else "untested"."""
        found = {one.status for one in self.verdicts.get(name, ())}
        return next((status for status in ("wrong", "right", "untested") if status in found), "")


class NothingRecorded(LookupError):
    """There are no results of an operation; the message names the command that records them."""


def collect(op: Op, sources: Iterable[RecordedRun], device: str | None = None) -> Collected:
    """Collect the results of ``op`` in ``sources`` on the device whose name contains ``device``, else the one timed
    last.

    For each size and dtype the newest run is used; verdicts are those of every device. Raises ``NothingRecorded``.
    """
    known = sorted(
        (source for source in sources if source.run.op == op.name), key=lambda source: source.run.started, reverse=True
    )
    if device is not None and not any(device.casefold() in source.run.device.casefold() for source in known):
        places = ", ".join(dict.fromkeys(source.run.device for source in known)) or "none"
        raise NothingRecorded(f"{op.name}: no results of a device whose name contains {device!r}; there are: {places}")
    if not known:
        raise NothingRecorded(f"{op.name}: no results; `warpwise climb {op.name}` records them")
    fit = [source for source in known if device is None or device.casefold() in source.run.device.casefold()]
    newest = next((source for source in fit if source.timed), fit[0])
    chosen = newest.run.device
    own = [source for source in known if source.run.device == chosen and source.timed]
    dtypes = [dtype_name(dtype) for dtype in op.spec.dtypes]
    by_name = frozenset(rung.name for rung in op.rungs if rung.by_name)
    points = points_of(own, [case.name for case in op.spec.sizes], dtypes, by_name)
    used = {id(point.run) for point in points}
    environment = newest.run.environment or {"device": chosen, "date": newest.run.started.isoformat(timespec="seconds")}
    folder = next((source.path.parent for source in own if source.path), None)
    measurements = [one for source in own for one in source.measurements]
    beside = list(_beside(folder, chosen)) if folder else []
    return Collected(
        op,
        chosen if points else "",
        points,
        _verdicts(op, known),
        environment,
        _roofs([*measurements, *beside]),
        read_counters(folder / "ncu" / f"{op.name}.json", chosen) if folder else None,
        tuple(source.origin for source in own if id(source.run) in used) or (newest.origin,),
        _changed(op, points),
    )


def points_of(
    sources: Sequence[RecordedRun], cases: Sequence[str], dtypes: Sequence[str], by_name: frozenset[str] = frozenset()
) -> tuple[MeasuredPoint, ...]:
    """The newest result for each size and dtype, in the order of ``cases`` and ``dtypes``; ``sources`` are newest
    first.
    """
    found: dict[tuple[str, str, tuple[tuple[str, int], ...]], MeasuredPoint] = {}
    for source in sources:
        groups: dict[tuple[str, str, tuple[tuple[str, int], ...]], list[Measurement]] = {}
        for one in source.measurements:
            if one.case:
                groups.setdefault((one.case, one.dtype, tuple(one.sizes.items())), []).append(one)
        for key, entries in groups.items():
            if key not in found and any(one.timed for one in entries):
                notes = source.notes.get((key[0], key[1]), ())
                found[key] = MeasuredPoint(key[0], dict(key[2]), key[1], source.run, tuple(entries), notes, by_name)

    def order(point: MeasuredPoint) -> tuple[int, int]:
        return (
            cases.index(point.case) if point.case in cases else len(cases),
            dtypes.index(point.dtype) if point.dtype in dtypes else len(dtypes),
        )

    return tuple(sorted(found.values(), key=order))


def _verdicts(op: Op, sources: Sequence[RecordedRun]) -> dict[str, tuple[Verified, ...]]:
    """The newest verdict on each rung and on the gradient on every device, the newest first."""
    found: dict[str, dict[str, Verified]] = {}
    for source in sources:
        verdicts = dict(source.verdicts)
        for one in source.measurements:
            if one.kind != "opponent" and not one.case and one.name not in verdicts:
                failures = (one.message,) if one.verdict == "wrong" else ()
                notes = (one.message,) if one.message and one.verdict != "wrong" else ()
                verdicts[one.name] = Verified(one.verdict, source.run.device, one.taken, failures=failures, notes=notes)
        for name, verdict in verdicts.items():
            found.setdefault(name, {}).setdefault(verdict.place, verdict)
    return {name: tuple(places.values()) for name, places in found.items()}


def _changed(op: Op, points: Sequence[MeasuredPoint]) -> frozenset[str]:
    """Rungs whose source differs from the timed one, where its digest was recorded."""
    digests = {rung.name: source_digest(rung.source) for rung in op.rungs}
    return frozenset(
        one.name for point in points for one in point.rungs if one.source and digests.get(one.name) != one.source
    )


def _fastest(entries: Iterable[Measurement]) -> Measurement | None:
    return min((one for one in entries if one.median), key=lambda one: one.median or 0.0, default=None)


def _roofs(measurements: Iterable[Measurement]) -> Roofs:
    """The ceilings, from recorded floors: a floor is bytes over bandwidth, or FLOPs over their rate."""
    bandwidth, flops = 0.0, dict[str, float]()
    for one in measurements:
        if not one.floor:
            continue
        if one.bound == "memory" and one.bytes:
            bandwidth = bandwidth or one.bytes / one.floor
        elif one.bound == "compute" and one.flops:
            flops.setdefault(one.dtype, one.flops / one.floor)
    return Roofs(bandwidth, flops)


def _beside(folder: Path, device: str) -> Iterator[Measurement]:
    """Measurements in other results files of the same device: a memory-bound operation has no arithmetic ceiling of its
    own.
    """
    for path in sorted(folder.glob("*.json")):
        try:
            run, measurements = _results(path)
        except (OtherFile, OSError):
            continue
        if run.device == device:
            yield from measurements


def _results(path: Path) -> tuple[Run, tuple[Measurement, ...]]:
    """``read_results``, which reads a file once for all operations of a report."""
    status = path.stat()
    return _read_once(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _read_once(path: Path, modified: int, size: int) -> tuple[Run, tuple[Measurement, ...]]:
    run, measurements, _ = read_results(path)
    return run, tuple(measurements)


def recorded_files(name: str | None = None, folders: Sequence[Path] | None = None) -> list[Path]:
    """The results files of operation ``name``, or of all operations, in ``folders`` and their subfolders."""
    pattern = f"{name}.json" if name else "*.json"
    found: dict[Path, Path] = {}
    for folder in folders if folders is not None else result_folders():
        for path in (*sorted(folder.glob(pattern)), *sorted(folder.glob(f"*/{pattern}"))):
            if path.parent.name != "ncu":
                found.setdefault(path.resolve(), path)
    return list(found.values())


def read_file(path: Path) -> RecordedRun | None:
    """The run in a results file; None for JSON of another kind. Raises ``UnreadableResults`` or ``OSError``."""
    try:
        run, measurements = _results(path)
    except OtherFile:
        return None
    data = json.loads(path.read_text())
    return RecordedRun(run, tuple(measurements), _verdicts_in(data, run.started), _notes(data), path)


def from_ladder(ladder: Ladder) -> RecordedRun:
    """The results of a climb."""
    data = json.loads(ladder.to_json())
    taken = datetime.fromisoformat(data["environment"]["date"])
    run = run_from(ladder.op, {**data["environment"], "device": ladder.place}, taken, "climb")
    languages = {row["name"]: row["language"] for row in data["rungs"]}
    measurements = [of_verdict(row["name"], row["verdict"], taken, row["language"]) for row in data["rungs"]]
    if data["gradient"]:
        measurements.append(of_gradient(data["gradient"], taken))
    for point in data["points"]:
        measurements += of_point(point, taken, languages, {})
    return RecordedRun(run, tuple(measurements), _verdicts_in(data, taken), _notes(data))


def from_store(store: Store, op: str) -> list[RecordedRun]:
    """Every run of ``op`` in the store, newest first."""
    by_run: dict[str, list[Measurement]] = {}
    for one in store.measurements(op):
        by_run.setdefault(one.run, []).append(one)
    return [RecordedRun(run, tuple(reversed(by_run[run.id]))) for run in store.runs(op) if run.id in by_run]


def _verdicts_in(data: Mapping[str, Any], date: datetime) -> dict[str, Verified]:
    found = {}
    verdicts = {row["name"]: row["verdict"] for row in data["rungs"]}
    if data.get("gradient"):
        verdicts[GRADIENT] = data["gradient"]
    for name, verdict in verdicts.items():
        tested = sum(case["status"] != "untested" for case in verdict["cases"])
        failures = tuple("\n".join((_failed(one), *one["findings"])) for one in verdict["failures"])
        found[name] = Verified(
            verdict["status"],
            verdict["place"],
            date,
            tested,
            len(verdict["cases"]) - tested,
            float(verdict["worst"]),
            failures,
            tuple(verdict["notes"]),
        )
    return found


def _failed(failure: Mapping[str, Any]) -> str:
    sizes = ", ".join(f"{name}={size}" for name, size in failure["case"]["sizes"].items())
    return f"{failure['case']['name']}({sizes}), {failure['dtype']}, seed {failure['seed']}: {failure['message']}"


def _notes(data: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(point["case"]["name"], point["dtype"]): tuple(point["notes"]) for point in data["points"]}
