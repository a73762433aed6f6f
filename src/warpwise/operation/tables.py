"""Tables of measured choices: written by ``warpwise tune``, kept in the cache or shipped, read when a plan is made.

A table holds points: a dtype, the kind of arguments (layouts, alignment), sizes, and which rung and configuration was
fastest there, or that PyTorch was. Arguments between points get the choice of the nearest one, by the Euclidean
distance of the base-2 logarithms of their sizes. Where the configuration does not fit the arguments, the rung uses its
own; a rung that refuses them is skipped for the next point's.
"""

from __future__ import annotations

import functools
import json
import math
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpwise.arguments.values import first_tensor
from warpwise.cache import atomic_write, cache_dir
from warpwise.device.target import Device, device_of
from warpwise.operation.choice import Choice
from warpwise.operation.rung import UnknownRung
from warpwise.operation.spec import Case

if TYPE_CHECKING:
    from warpwise.operation.op import Op

SCHEMA = 1
MAX_LOG2_DISTANCE = 0.5  # a point is near arguments up to 1.4 times as long in one dimension
LAUNCH_FLOOR_S = 5e-6  # the shortest launches measured on an H200 take this long, however little they compute
TORCH = "torch"
USER, SHIPPED = "user's table", "shipped table"

_generation = 0


class Cache(dict[Any, Any]):
    """Values derived from tables: cleared whenever a table may have changed, and freed with their operation."""

    def __init__(self) -> None:
        super().__init__()
        _caches.append(weakref.ref(self, _caches.remove))


_caches: list[weakref.ref[Cache]] = []


@dataclass(frozen=True)
class TunedPoint:
    """The fastest at one dtype, kind and sizes: ``winner``, a rung (``name@config``) or "torch". ``rival`` is second.

    Times are medians in seconds of one interleaved run. ``work`` is FLOPs (bytes, where there are none) and scales the
    times to sizes nearby. ``candidates`` counts the contestants, ``fingerprint`` is a digest of their sources.
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
        """A table has one point for each key."""
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
        """Write the file atomically, one point a line."""
        head = {"schema": SCHEMA, "op": self.op, "device": asdict(self.device), "environment": dict(self.environment)}
        lines = ",\n".join("  " + json.dumps(asdict(point)) for point in sorted(self.points, key=TunedPoint.key))
        text = json.dumps(head, indent=1)[:-2] + ',\n "points": [\n' + lines + "\n ]\n}\n"
        atomic_write(path, text)
        reload()


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
    """Read every table again when it is next used, and drop cached plans: a file has changed."""
    global _generation
    _generation += 1
    for reference in _caches:
        if (cache := reference()) is not None:
            cache.clear()


@dataclass(frozen=True)
class Tables:
    """The tables of one operation: the user's in the cache, then those shipped in ``folder``.

    ``describe(*args)`` gives the kind of the arguments and their sizes by name. ``arrangements`` turn a case's
    arguments into those of each layout, for tuning: {"nn": ..., "nt": ...}. ``sizes`` are what ``warpwise tune``
    measures by default. ``dtype_fallback`` names the dtype whose points are used where one has none nearby: {"float16":
    "bfloat16"}.
    """

    op: str
    folder: Path | None
    describe: Callable[..., tuple[str, Mapping[str, int]]]
    arrangements: Mapping[str, Callable[..., tuple[Any, ...]]] = field(default_factory=lambda: {"": lambda *args: args})
    sizes: tuple[Case, ...] = ()
    dtype_fallback: Mapping[str, str] = field(default_factory=dict)

    def user_file(self, device: Device) -> Path:
        """Where ``warpwise tune`` writes what it measures on ``device``."""
        return cache_dir() / "tuned" / self.op / device.file

    def choice(self, op: Op, *args: Any, device: Device | None = None) -> Choice | None:
        """The choice of the nearest point, or None if none is near; ``device`` stands in for the arguments' own."""
        where = device or device_of(first_tensor(args).device)
        kind, sizes = self.describe(*args)
        if min(sizes.values()) < 1:
            return None
        cost = op.spec.cost(*args)
        dtype, known = str(op.spec.dtype(args)).removeprefix("torch."), self._known(where)
        for each in (dtype, self.dtype_fallback.get(dtype)):
            near = [
                (point.distance(sizes), order, point, source if each == dtype else f"{source}, {each}")
                for order, (source, table) in enumerate(known)
                for point in table.points
                if (point.dtype, point.kind) == (each, kind)
            ]
            for distance, _, point, source in sorted(near, key=lambda entry: entry[:2]):
                if distance > MAX_LOG2_DISTANCE:
                    break
                winner = TORCH if point.winner == TORCH else _accepting(op, point.winner, args, here=device is None)
                if winner:
                    return _choice(point, winner, distance, source, cost.flops or cost.bytes)
        return None

    def table(self, device: Device) -> Table | None:
        """The first table used on ``device``, or None."""
        return next((table for _, table in self._known(device)), None)

    def devices(self) -> list[str]:
        """The names of the devices that have a table."""
        folders = [self.user_file(Device("any")).parent, *([self.folder] if self.folder else [])]
        found = [load(path) for folder in folders for path in sorted(folder.glob("*.json"))]
        return sorted({table.device.name for table in found if table is not None})

    def _known(self, device: Device) -> Sequence[tuple[str, Table]]:
        return _tables(_generation, self.user_file(device), self.folder, device)


@functools.lru_cache(maxsize=64)
def _tables(generation: int, user: Path, folder: Path | None, device: Device) -> tuple[tuple[str, Table], ...]:
    """Tables by source, the user's first; a shipped one of a GPU of the same target and SM count if this has none."""
    found = [(USER, load(user)), (SHIPPED, load(folder / device.file) if folder else None)]
    if found[1][1] is None and folder is not None and device.target:
        for other in (load(path) for path in sorted(folder.glob("*.json"))):
            same = (device.target, device.multiprocessors)
            if other and (other.device.target, other.device.multiprocessors) == same:
                found.append((f"{SHIPPED} of {other.device.name}", other))
    return tuple((source, table) for source, table in found if table is not None)


def _accepting(op: Op, name: str, args: Sequence[Any], here: bool) -> str:
    """``name``, or its rung alone if the configuration does not fit; "" if the rung refuses ``args`` or is gone."""
    for candidate in (name, name.partition("@")[0]):
        try:
            rung = op.rung(candidate)
        except UnknownRung:
            return ""
        if rung.by_name:
            return ""
        if (op.refusal(rung, *args) if here else op.unsupported(rung, *args)) is None:
            return candidate
    return ""


def _choice(point: TunedPoint, winner: str, distance: float, source: str, work: int) -> Choice:
    rung, _, config = ("", "", "") if winner == TORCH else winner.partition("@")
    sizes = ", ".join(f"{name}={size}" for name, size in point.sizes.items())
    where = "measured at these sizes" if distance == 0 else f"measured at {sizes}, the nearest point"
    scale = work / point.work if point.work else 1.0
    scale = max(scale, min(1.0, LAUNCH_FLOOR_S / point.seconds)) if point.seconds else scale
    others = None if point.rival_seconds is None else scale * point.rival_seconds
    won = f"{'PyTorch' if winner == TORCH else 'ours'} is faster than {point.rival}" if point.rival else "alone"
    return Choice(rung or None, config, f"{won}, {where}", source, scale * point.seconds, point.rival, others)
