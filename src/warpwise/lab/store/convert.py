"""Runs and measurements from the progress of a climb, and from results files of schema 1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from warpwise.cache import key
from warpwise.lab.ladder import SCHEMA, Point
from warpwise.lab.store.records import GRADIENT, Measurement, Run, finite
from warpwise.lab.timing.compare import WRONG
from warpwise.lab.timing.samples import Clock
from warpwise.lab.timing.stats import Interval
from warpwise.lab.verify.verdict import Status, Verdict

WRONG_HERE = "wrong at this size"  # the note of lab.time_point


class UnreadableResults(ValueError):
    """A results file that cannot be imported; the message gives the expected format."""


class OtherFile(UnreadableResults):
    """JSON of another kind: results folders also hold other measurements."""


def run_from(
    op: str, environment: Mapping[str, Any], started: datetime, made_by: str, commit: str = "", dirty: bool = False
) -> Run:
    """A run from the values of ``lab.timing.environment.environment``."""

    def value(name: str) -> str:
        return str(environment.get(name, ""))

    return Run(
        op,
        value("device"),
        started,
        value("driver"),
        value("warpwise"),
        value("torch"),
        value("triton"),
        value("cuda"),
        commit,
        dirty,
        made_by,
        dict(environment),
    )


def of_verdict(rung: str, verdict: Mapping[str, Any], taken: datetime, language: str = "") -> Measurement:
    """A rung's verdict over all cases, from ``Verdict.to_json``."""
    message = "" if verdict["status"] == "right" else "; ".join(_failures(verdict)) or _reasons(verdict)
    return Measurement(rung, verdict["status"], taken, language=language, message=message)


def of_gradient(verdict: Mapping[str, Any], taken: datetime) -> Measurement:
    """The verdict on the gradient, from ``Verdict.to_json``."""
    return replace(of_verdict(GRADIENT, verdict, taken), kind="gradient")


def _failures(verdict: Mapping[str, Any]) -> list[str]:
    found = []
    for failure in verdict["failures"]:
        sizes = ", ".join(f"{name}={size}" for name, size in failure["case"]["sizes"].items())
        found.append(f"{failure['case']['name']}({sizes}), {failure['dtype']}: {failure['message']}")
    return found


def _reasons(verdict: Mapping[str, Any]) -> str:
    return "; ".join(sorted({case["reason"] for case in verdict["cases"] if case["reason"]} | set(verdict["notes"])))


def of_point(
    point: Mapping[str, Any], taken: datetime, languages: Mapping[str, str], sources: Mapping[str, str]
) -> list[Measurement]:
    """The measurements of one point, from ``Point.to_json``; languages and source digests by rung."""
    case = point["case"]
    found = []
    for entry in point["entries"]:
        timing, ratio = entry["timing"] or {}, entry["ratio"]
        rung = entry["name"].partition("@")[0]  # the same kernel in a fixed configuration
        clock = timing.get("clock_mhz")
        void = timing.get("void", "")
        status, message = _status(entry, void)
        median, low, high = (None if void else finite(timing.get(name)) for name in ("median_s", "low_s", "high_s"))
        found.append(
            Measurement(
                entry["name"],
                status,
                taken,
                entry["kind"],
                languages.get(rung, ""),
                case["name"],
                case["sizes"],
                case["values"],
                case["layout"],
                point["dtype"],
                message,
                median,
                low,
                high,
                timing.get("samples", 0),
                timing.get("method", ""),
                timing.get("bytes"),
                timing.get("flops"),
                timing.get("floor_s"),
                timing.get("bound", ""),
                Interval(ratio["median"], ratio["low"], ratio["high"]) if ratio else None,
                Clock(*clock) if clock else None,
                timing.get("converged", True),
                timing.get("throttled", False),
                timing.get("exposed", False),
                sources.get(rung, ""),
            )
        )
    return found


def _status(entry: Mapping[str, Any], void: str) -> tuple[Status, str]:
    """The verdict of an entry at a point. A timed rung was compared with the reference before and after the timing."""
    note = entry["note"]
    if note == WRONG_HERE or void.startswith(WRONG):
        return "wrong", void or note
    compared = entry["timing"] is not None and (entry["kind"] == "rung" or not note or bool(void))
    return ("right" if compared else "untested"), void or note


def of_live_point(
    point: Point, taken: datetime, languages: Mapping[str, str], sources: Mapping[str, str]
) -> list[Measurement]:
    """``of_point`` for a point that was just measured."""
    return of_point(point.to_json(), taken, languages, sources)


def of_live_verdict(verdict: Verdict, taken: datetime, language: str, source: str) -> Measurement:
    """``of_verdict`` for a verdict that was just reached."""
    return replace(of_verdict(verdict.rung, verdict.to_json(), taken, language), source=source)


def read_results(path: Path) -> tuple[Run, list[Measurement], str]:
    """The run in a results file (``warpwise climb --json``), its measurements, and a digest of its content.

    Raises ``UnreadableResults`` (``OtherFile`` for JSON of another kind), and ``OSError`` if it cannot be read.
    """
    try:
        data = json.loads(path.read_text())
    except ValueError as error:
        raise UnreadableResults(
            f"{path}: expected a results file of `warpwise climb --json`, got invalid JSON: {error}"
        ) from error
    if not isinstance(data, dict) or "schema" not in data or "points" not in data:
        raise OtherFile(f"{path}: expected a results file of `warpwise climb --json`, got other JSON")
    if "rungs" not in data and isinstance(data.get("device"), dict):
        raise OtherFile(
            f"{path}: expected a results file of `warpwise climb --json`, got a table of choices of `warpwise tune`, "
            "which holds winners, not measurements"
        )
    if data["schema"] != SCHEMA:
        raise UnreadableResults(
            f"{path}: expected a results file of schema {SCHEMA}, got schema {data['schema']!r} of another version of "
            "Warpwise"
        )
    try:
        return _read(path, data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableResults(f"{path}: the results file is incomplete: {type(error).__name__}: {error}") from error


def _read(path: Path, data: dict[str, Any]) -> tuple[Run, list[Measurement], str]:
    environment = {**data["environment"], "device": data["place"]}
    taken = datetime.fromisoformat(environment["date"])
    taken = taken if taken.tzinfo else taken.replace(tzinfo=timezone.utc)
    commit = str(environment.get("git_commit", ""))
    run = run_from(data["op"], environment, taken, str(path), commit.rstrip("+"), commit.endswith("+"))
    languages = {row["name"]: row["language"] for row in data["rungs"]}
    measurements = [of_verdict(row["name"], row["verdict"], taken, row["language"]) for row in data["rungs"]]
    if data.get("gradient"):
        measurements.append(of_gradient(data["gradient"], taken))
    for point in data["points"]:
        measurements += of_point(point, taken, languages, {})
    return replace(run, finished=taken), measurements, key(json.dumps(data, sort_keys=True))
