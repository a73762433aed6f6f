"""Records of Nsight Compute's counters and of times, one JSON file an operation.

A file lists its metrics once; each launch has their values in that order, null where ncu reports none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warpwise import cache

SCHEMA = 1
KEY = ("op", "rung", "dtype", "case", "sizes", "attributes", "layout", "kind")


@dataclass(frozen=True)
class RecordedLaunch:
    """One launch of a rung at a point: its shape, ncu's metrics, and its time without a profiler.

    ``time`` holds ``median_s``, ``low_s``, ``high_s``, ``samples`` and ``clock_mhz`` (lowest, median, highest), or is
    None. ``index`` counts the rung's launches from 0. ``symbol`` is the mangled name; sizes are in bytes.
    """

    op: str
    rung: str
    dtype: str
    case: str
    sizes: dict[str, int]
    kind: str
    index: int
    expression: str
    symbol: str
    source: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    static_shared: int
    registers: int
    time: dict[str, Any] | None = None
    metrics: dict[str, float] = field(default_factory=dict, repr=False)
    layout: str = "contiguous"
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        """Identifies the launch among those of all files."""
        return self.op, self.rung, self.dtype, self.case, self.kind, self.index

    def __str__(self) -> str:
        return f"{self.op} {self.rung} {self.dtype} {self.case} launch {self.index}"


@dataclass
class Record:
    """All launches of an operation, the environment they were measured in, and the measurements that failed."""

    op: str
    environment: dict[str, Any] = field(default_factory=dict)
    launches: list[RecordedLaunch] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def without(self, rungs: Sequence[str]) -> Record:
        """This record without the launches of ``rungs``, to measure those again."""
        kept = [launch for launch in self.launches if launch.rung not in rungs]
        return Record(self.op, self.environment, kept, self.units, self.texts)

    def save(self, path: Path) -> None:
        """Write the file at ``path`` atomically."""
        names = sorted({name for launch in self.launches for name in launch.metrics})
        points: dict[str, dict[str, Any]] = {}
        for launch in self.launches:
            data = asdict(launch)
            values = [_short(launch.metrics.get(name)) for name in names]
            point = points.setdefault(json.dumps({name: data[name] for name in KEY}), {"launches": []})
            rest = {name: value for name, value in data.items() if name not in (*KEY, "metrics")}
            point["launches"].append({**rest, "values": values})
        head = {
            "schema": SCHEMA, "op": self.op, "environment": self.environment, "failures": self.failures,
            "units": {name: unit for name, unit in self.units.items() if name in names}, "texts": self.texts,
            "metrics": names,
        }  # fmt: skip
        rows = [json.dumps({**json.loads(key), **point}) for key, point in points.items()]
        start = json.dumps(head, indent=1).removesuffix("\n}")
        cache.atomic_write(path, f'{start},\n "points": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n")

    @staticmethod
    def load(path: Path) -> Record:
        """Read a file that ``save`` wrote. Raises ``ValueError`` if its schema is another."""
        data = json.loads(path.read_text())
        if data.get("schema") != SCHEMA:
            raise ValueError(f"{path}: schema {data.get('schema')!r}, expected {SCHEMA}; collect it again")
        launches = []
        for point in data["points"]:
            for launch in point["launches"]:
                facts: dict[str, Any] = {**point, **launch}
                values = zip(data["metrics"], facts.pop("values"), strict=True)
                del facts["launches"]
                facts |= {"grid": tuple(launch["grid"]), "block": tuple(launch["block"])}
                launches.append(
                    RecordedLaunch(**facts, metrics={name: value for name, value in values if value is not None})
                )
        return Record(data["op"], data["environment"], launches, data["units"], data["texts"], data["failures"])


def write(path: Path, data: dict[str, Any]) -> None:
    """Write ``data`` as JSON, one line for each item of its lists."""
    parts = []
    for name, value in data.items():
        if isinstance(value, list):
            text = "[\n  " + ",\n  ".join(json.dumps(row) for row in value) + "\n ]"
        else:
            text = json.dumps(value, indent=1).replace("\n", "\n ")
        parts.append(f" {json.dumps(name)}: {text}")
    cache.atomic_write(path, "{\n" + ",\n".join(parts) + "\n}\n")


def _short(value: float | None) -> float | int | None:
    """Integers unchanged, other numbers rounded to nine significant digits."""
    if value is None:
        return None
    return int(value) if value == int(value) else float(f"{value:.9g}")


def records(folder: Path) -> Iterator[Record]:
    """The records in ``folder``, sorted by operation."""
    for path in sorted(folder.glob("*.json")):
        yield Record.load(path)
