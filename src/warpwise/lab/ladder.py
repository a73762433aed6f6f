"""The results of climbing an operation's ladder: verdicts, times and ratios, and the results file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from warpwise.cache import atomic_write
from warpwise.lab.display import render
from warpwise.lab.timing.stats import Interval
from warpwise.lab.timing.timing import Timing
from warpwise.lab.verify.verdict import Verdict, case_to_json, dtype_name, plain
from warpwise.operation import Case

SCHEMA = 1


def group_notes(notes: Iterable[tuple[str, str]]) -> list[str]:
    """One line for each distinct note, with the names that have it: ``k12, k16: takes ...``."""
    names: dict[str, list[str]] = {}
    for name, note in notes:
        if note:
            names.setdefault(note, []).append(name)
    return [f"{', '.join(named)}: {note}" for note, named in names.items()]


@dataclass(frozen=True)
class Entry:
    """The time of a rung or opponent at one point; ``ratio`` is its speed relative to the best opponent.

    ``note`` is a remark: an opponent outside the tolerance, or why a rung was not timed.
    """

    name: str
    kind: Literal["rung", "opponent"]
    timing: Timing | None = None
    ratio: Interval | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can represent."""
        ratio = self.ratio and {"median": self.ratio.median, "low": self.ratio.low, "high": self.ratio.high}
        timing = self.timing.to_json() if self.timing else None
        return {"name": self.name, "kind": self.kind, "timing": timing, "ratio": ratio, "note": self.note}


@dataclass(frozen=True)
class Point:
    """The times at one size and dtype, interleaved; ``best`` is the name of the fastest opponent."""

    case: Case
    dtype: torch.dtype
    entries: tuple[Entry, ...]
    best: str = ""
    notes: tuple[str, ...] = ()

    def entry(self, name: str) -> Entry | None:
        """The entry of one rung or opponent."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can represent."""
        return {
            "case": case_to_json(self.case),
            "dtype": dtype_name(self.dtype),
            "best_opponent": self.best,
            "entries": [entry.to_json() for entry in self.entries],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Row:
    """One rung of the ladder and its verdict."""

    rung: str
    idea: str
    language: str
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can represent."""
        return {"name": self.rung, "idea": self.idea, "language": self.language, "verdict": self.verdict.to_json()}


@dataclass(frozen=True)
class Ladder:
    """An operation's ladder, climbed on ``place``: a verdict for each rung and, on a GPU, times.

    On a CPU ``points`` is empty, because emulated kernels are not timed; ``recorded`` then holds the last results
    recorded on a GPU, or None.
    """

    op: str
    summary: str
    place: str
    environment: dict[str, Any]
    rows: tuple[Row, ...]
    points: tuple[Point, ...] = ()
    seconds: float = 0.0
    recorded: Recorded | None = None
    notes: tuple[str, ...] = field(default=())
    gradient: Verdict | None = None
    eager: str = ""
    """The first error in the results of PyTorch's own computation, ``Spec.eager``; empty if they are right."""

    @property
    def right(self) -> bool:
        """True if no rung is wrong, and PyTorch's own computation and the gradient are right."""
        gradient = self.gradient is None or self.gradient.right
        return gradient and not self.eager and all(row.verdict.status != "wrong" for row in self.rows)

    def row(self, rung: str) -> Row | None:
        """The row of one rung."""
        return next((row for row in self.rows if row.rung == rung), None)

    def _repr_html_(self) -> str:
        made: str = render(self, "html")
        return made

    def to_json(self) -> str:
        """The text of the results file; ``schema`` is its version."""
        data = {
            "schema": SCHEMA, "op": self.op, "summary": self.summary, "place": self.place,
            "environment": self.environment, "seconds": round(self.seconds, 3),
            "rungs": [row.to_json() for row in self.rows], "points": [point.to_json() for point in self.points],
            "notes": list(self.notes), "gradient": self.gradient.to_json() if self.gradient else None,
            "eager": self.eager,
        }  # fmt: skip
        return json.dumps(_plain(data), indent=1, allow_nan=False) + "\n"

    def save(self, path: Path) -> None:
        """Write the results file atomically."""
        atomic_write(path, self.to_json())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return plain(value)


@dataclass(frozen=True)
class Recorded:
    """Results recorded by an earlier climb on ``device`` at ``date``."""

    path: Path
    data: dict[str, Any] = field(repr=False)

    @property
    def device(self) -> str:
        return str(self.data["place"])

    @property
    def date(self) -> str:
        return str(self.data["environment"].get("date", ""))

    def status(self, rung: str) -> str | None:
        """The recorded verdict of a rung: ``right``, ``wrong``, ``untested``, or None."""
        return next((row["verdict"]["status"] for row in self.data["rungs"] if row["name"] == rung), None)

    def points(self) -> list[tuple[Case, torch.dtype]]:
        """The sizes and dtypes that were timed."""
        found = []
        for point in self.data["points"]:
            case = point["case"]
            read = Case(
                case["name"],
                case["sizes"],
                case.get("attributes", {}),
                case["values"],
                case["layout"],
                case.get("layouts", {}),
            )
            found.append((read, getattr(torch, point["dtype"])))
        return found

    def point(self, case: str, dtype: torch.dtype | str) -> dict[str, Any] | None:
        """The file's entry for a case and dtype: keys ``case``, ``dtype``, ``best_opponent`` and ``entries``; None
        without one.
        """
        named = dtype if isinstance(dtype, str) else dtype_name(dtype)
        return next(
            (point for point in self.data["points"] if (point["case"]["name"], point["dtype"]) == (case, named)), None
        )

    def entry(self, name: str, case: str, dtype: torch.dtype | str) -> dict[str, Any] | None:
        """The file's entry for a rung or opponent: keys ``kind``, ``timing``, ``ratio`` and ``note``; None without
        one.
        """
        point = self.point(case, dtype)
        return next((entry for entry in point["entries"] if entry["name"] == name), None) if point else None

    def opponents(self, case: str, dtype: torch.dtype | str) -> list[str]:
        """The names of the opponents timed there."""
        point = self.point(case, dtype)
        return [entry["name"] for entry in point["entries"] if entry["kind"] == "opponent"] if point else []


def result_folders() -> list[Path]:
    """The folders searched for results: ``benchmarks/results`` below the working folder and the checkout, then the
    package.
    """
    package = Path(__file__).parents[1]
    return [Path.cwd() / "benchmarks" / "results", package.parents[1] / "benchmarks" / "results", package / "results"]


def recorded(op: str, folders: list[Path] | None = None) -> Recorded | None:
    """The newest recorded ladder of ``op`` that holds times, from ``<folder>/<device>/<op>.json``; None if there is
    none.

    ``folders`` are by default ``benchmarks/results`` below the working folder and the checkout, then the package's.
    Files of another schema are ignored. Raises ``ValueError`` naming the file if one is not JSON.
    """
    found: dict[Path, Recorded] = {}
    for folder in folders if folders is not None else result_folders():
        for path in sorted(folder.glob(f"*/{op}.json")):
            try:
                data = json.loads(path.read_text())
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}: expected a results file, got invalid JSON: {error}") from error
            if isinstance(data, dict) and data.get("schema") == SCHEMA and data.get("points"):
                found.setdefault(path.resolve(), Recorded(path, data))
    return max(found.values(), key=lambda record: record.date, default=None)
