"""Choices for given arguments, and the files of tuned tables: the fastest candidate at each measured point."""

from __future__ import annotations

import json
import math
import warnings
import weakref
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from warpwise.cache import atomic_write, file_lock
from warpwise.device.target import Device

SCHEMA = 1
TORCH = "torch"


class Cache(dict[Any, Any]):
    """Values derived from tables: cleared whenever a table may have changed, and freed with their operation."""

    def __init__(self) -> None:
        super().__init__()
        _caches.append(weakref.ref(self, _caches.remove))


_caches: list[weakref.ref[Cache]] = []


@dataclass(frozen=True)
class Choice:
    """The choice for given arguments: a rung with its ``config`` if it has any, or PyTorch if ``rung`` is None.

    ``reason`` is a text, ``source`` the origin of the choice: "user's table", "shipped table", "tables",
    "model of <GPU>", "measured online", "heuristics" or "device". ``rival`` is the fastest alternative: "torch", or the
    best rung if PyTorch is chosen. ``seconds`` and ``rival_seconds`` are the times, None if unknown; ``error`` is the
    relative error of predicted ones, 0 if they are measured.
    """

    rung: str | None
    config: str = ""
    reason: str = ""
    source: str = "heuristics"
    seconds: float | None = None
    rival: str = ""
    rival_seconds: float | None = None
    error: float = 0.0

    @property
    def name(self) -> str | None:
        """The rung as ``Op.rung`` takes it, ``name@config``; None for PyTorch."""
        return f"{self.rung}@{self.config}" if self.rung and self.config else self.rung

    def __str__(self) -> str:
        times = ""
        if self.seconds is not None:
            rival = "PyTorch" if self.rival == TORCH else self.rival
            known = f"predicted ± {max(1, round(100 * self.error))} %" if self.error else "measured"
            against = f" against {1e6 * self.rival_seconds:.4g} µs of {rival}" if self.rival_seconds is not None else ""
            times = f", {1e6 * self.seconds:.4g} µs{against}, {known}"
        return f"{self.name or 'PyTorch'}{times} ({self.source}: {self.reason})"


@dataclass(frozen=True)
class TunedPoint:
    """The fastest at one dtype, kind and sizes: ``winner``, a rung (``name@config``) or "torch"; ``rival`` is second.

    Times are medians in seconds of one interleaved run. ``work`` is the FLOPs, or the bytes of an operation without
    FLOPs, and scales the times to sizes nearby. ``candidates`` is their number, ``fingerprint`` a digest of their
    sources.
    """

    dtype: str
    kind: str
    sizes: Mapping[str, int]
    winner: str
    seconds: float
    rival: str
    rival_seconds: float | None
    work: int
    candidates: int = 0
    fingerprint: str = ""

    def distance(self, sizes: Mapping[str, int]) -> float:
        """The distance to ``sizes`` in powers of two; infinite if they have other dimensions."""
        if sizes.keys() != self.sizes.keys():
            return math.inf
        return math.hypot(*(math.log2(sizes[name] / size) for name, size in self.sizes.items()))

    def key(self) -> tuple[Any, ...]:
        """The key of the point, unique in a table."""
        return self.dtype, self.kind, *sorted(self.sizes.items())


@dataclass(frozen=True)
class Table:
    """The points measured on one device, and the environment that they were measured in."""

    op: str
    device: Device
    points: tuple[TunedPoint, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)

    def with_point(self, point: TunedPoint) -> Table:
        """This table with ``point`` in place of the one with the same key."""
        others = tuple(other for other in self.points if other.key() != point.key())
        return Table(self.op, self.device, (*others, point), self.environment)

    def save(self, path: Path) -> None:
        """``write``, then ``reload``, so that calls of this process use the new table."""
        self.write(path)
        reload()

    def write(self, path: Path) -> None:
        """Write the file atomically, one point per line."""
        head = {"schema": SCHEMA, "op": self.op, "device": asdict(self.device), "environment": dict(self.environment)}
        lines = ",\n".join("  " + json.dumps(asdict(point)) for point in sorted(self.points, key=TunedPoint.key))
        text = json.dumps(head, indent=1)[:-2] + ',\n "points": [\n' + lines + "\n ]\n}\n"
        atomic_write(path, text)


def load(path: Path) -> Table | None:
    """The table in ``path``; None if there is none or of another schema, with a warning for a malformed file."""
    try:
        data = json.loads(path.read_text())
        if data["schema"] != SCHEMA:
            return None
        points = tuple(_point(point) for point in data["points"])
        return Table(data["op"], Device(**data["device"]), points, data["environment"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        warnings.warn(f"{path}: not a table of tuned choices, ignored: {error!r}", stacklevel=2)
        return None


def add_point(path: Path, table: Table, point: TunedPoint) -> Table:
    """Add ``point`` to the file at ``path`` and return its table, with the environment of ``table``.

    Other points of the file are kept, so several processes may add points at the same time; a file of another device is
    replaced. Calls of this process use the point after ``reload``.
    """
    with file_lock(path):
        stored = load(path)
        points = stored.points if stored is not None and stored.device == table.device else ()
        added = replace(table, points=points).with_point(point)
        added.write(path)
    return added


def _point(data: Mapping[str, Any]) -> TunedPoint:
    """A point of a file. Raises ``ValueError`` or ``TypeError`` for values that would fail when the table is used."""
    point = TunedPoint(**data)
    names, times = (point.dtype, point.kind, point.winner, point.rival), (point.seconds, point.rival_seconds or 0.0)
    if not all(isinstance(name, str) for name in names) or not all(0 <= time < math.inf for time in times):
        raise ValueError(f"expected names and times in seconds, got {data}")
    if not all(isinstance(size, int) and size > 0 for size in (*point.sizes.values(), point.work + 1)):
        raise ValueError(f"expected sizes of 1 and more, got {data}")
    return point


def reload() -> None:
    """After a change of a file: drop cached plans, and read every table again at its next use."""
    for reference in _caches:
        if (cache := reference()) is not None:
            cache.clear()
