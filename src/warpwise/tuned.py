"""Tables of what was fastest where: measured by ``warpwise tune``, kept in the cache or shipped, asked before each first launch.

A table holds points: a dtype, the kind of arguments (layouts, alignment), sizes, and which rung at which configuration
won there, or that PyTorch did. Arguments between the points are given to the nearest one, by the Euclidean distance of
the logarithms of sizes to base 2. Where the winner's configuration is none for these arguments its rung takes its own;
a rung that refuses them is passed over for the next point's.
"""

from __future__ import annotations

import functools
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from warpwise.cache import atomic_write, cache_dir
from warpwise.registry import Case, Choice, Op, UnknownRung

SCHEMA = 1
REACH = 3.0  # in powers of two: a point says nothing of arguments farther away, as 8 times as long in one dimension
LEAST = 5e-6  # seconds: the shortest launches measured on an H200 take as long, however little they compute
TORCH = "torch"
USERS, SHIPPED = "user's table", "shipped table"

_forgotten = 0


@dataclass(frozen=True)
class Point:
    """Who is fastest for ``dtype`` and ``kind`` at ``sizes``: a rung (``name@config``) or "torch", and the best of the others.

    Times are medians in seconds of one interleaved run. ``flops`` (bytes, where there are none) scales them to sizes
    nearby. ``candidates`` counts who took part, ``fingerprint`` names their sources.
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
        """How far ``sizes`` are from here, in powers of two; infinite if they are of other dimensions."""
        if sizes.keys() != self.sizes.keys():
            return math.inf
        return math.hypot(*(math.log2(sizes[name] / size) for name, size in self.sizes.items()))

    def place(self) -> tuple[Any, ...]:
        """What one table has one point for."""
        return self.dtype, self.kind, *sorted(self.sizes.items())


@dataclass(frozen=True)
class Device:
    """A GPU as tables name it: what it is called, its target (sm_90) and its number of multiprocessors."""

    name: str
    target: str = ""
    multiprocessors: int = 0

    @property
    def file(self) -> str:
        """The name of its table: ``nvidia_h200.json``."""
        return re.sub(r"[^a-z0-9]+", "_", self.name.lower()).strip("_") + ".json"


@functools.lru_cache(maxsize=64)
def device_of(device: torch.device) -> Device:
    """The GPU, or the processor, that ``device`` stands for."""
    if device.type != "cuda":
        return Device(device.type)
    properties: Any = torch.cuda.get_device_properties(device)
    return Device(properties.name, f"sm_{properties.major}{properties.minor}", properties.multi_processor_count)


@dataclass(frozen=True)
class Table:
    """The points measured on one device, and where they stand."""

    op: str
    device: Device
    points: tuple[Point, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)

    def with_point(self, point: Point) -> Table:
        """This table with ``point`` in place of what stood there."""
        others = tuple(other for other in self.points if other.place() != point.place())
        return Table(self.op, self.device, (*others, point), self.environment)

    def save(self, path: Path) -> None:
        """Write the file whole or not at all, a point a line."""
        head = {"schema": SCHEMA, "op": self.op, "device": asdict(self.device), "environment": dict(self.environment)}
        lines = ",\n".join("  " + json.dumps(asdict(point)) for point in sorted(self.points, key=Point.place))
        text = json.dumps(head, indent=1)[:-2] + ',\n "points": [\n' + lines + "\n ]\n}\n"
        atomic_write(path, text)
        forget()


def load(path: Path) -> Table | None:
    """The table in ``path``; None without one, with one of another schema, and, with a warning, for what is no table."""
    try:
        data = json.loads(path.read_text())
        if data["schema"] != SCHEMA:
            return None
        points = tuple(_read(point) for point in data["points"])
        return Table(data["op"], Device(**data["device"]), points, data["environment"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        warnings.warn(f"{path}: not a table of tuned choices, passed over: {error!r}", stacklevel=2)
        return None


def _read(data: Mapping[str, Any]) -> Point:
    """A point of a file. Raises ``ValueError`` or ``TypeError`` for what would fail when it is asked."""
    point = Point(**data)
    names, times = (point.dtype, point.kind, point.winner, point.rival), (point.seconds, point.rival_seconds or 0.0)
    if not all(isinstance(name, str) for name in names) or not all(0 <= time < math.inf for time in times):
        raise ValueError(f"expected names and times in seconds, got {data}")
    if not all(isinstance(size, int) and size > 0 for size in (*point.sizes.values(), point.work + 1)):
        raise ValueError(f"expected sizes of 1 and more, got {data}")
    return point


def forget() -> None:
    """Read every table again when it is next asked: a file has changed."""
    global _forgotten
    _forgotten += 1


def generation() -> int:
    """Changes whenever tables may have: what was derived from them before holds no longer."""
    return _forgotten


@dataclass(frozen=True)
class Tables:
    """The tables of one operation: the user's in the cache, before those shipped in ``folder``.

    ``describe(*args)`` gives the kind of the arguments and their sizes by name, as the cases name them. ``arrangements``
    makes arguments of each layout from those that a case gives, for tuning: {"nn": ..., "nt": ...}. ``sizes`` are those
    that ``warpwise tune`` measures unless told otherwise. ``kin`` names the dtype whose points stand in where one has none
    nearby: {"float16": "bfloat16"}, whose kernels differ by a conversion.
    """

    op: str
    folder: Path | None
    describe: Callable[..., tuple[str, Mapping[str, int]]]
    arrangements: Mapping[str, Callable[..., tuple[Any, ...]]] = field(default_factory=lambda: {"": lambda *args: args})
    sizes: tuple[Case, ...] = ()
    kin: Mapping[str, str] = field(default_factory=dict)

    def users(self, device: Device) -> Path:
        """Where ``warpwise tune`` keeps what it finds on ``device``."""
        return cache_dir() / "tuned" / self.op / device.file

    def choice(self, op: Op, *args: Any, device: Device | None = None) -> Choice | None:
        """What the nearest point says, or None where none is near. ``device`` asks for another GPU than the arguments lie on."""
        first = next(value for value in args if isinstance(value, torch.Tensor))
        where = device or device_of(first.device)
        kind, sizes = self.describe(*args)
        if min(sizes.values()) < 1:
            return None
        dtype, work = str(first.dtype).removeprefix("torch."), _work(op, args)
        known = self._known(where)
        for each in (dtype, self.kin.get(dtype)):
            near = [
                (point.distance(sizes), order, point, source if each == dtype else f"{source}, {each}")
                for order, (source, table) in enumerate(known)
                for point in table.points
                if (point.dtype, point.kind) == (each, kind)
            ]
            for distance, _, point, source in sorted(near, key=lambda entry: entry[:2]):
                if distance > REACH:
                    break
                winner = TORCH if point.winner == TORCH else _taking(op, point.winner, args, on_device=device is None)
                if winner:
                    return _chosen(point, winner, distance, source, work)
        return None

    def table(self, device: Device) -> Table | None:
        """The first that is asked on ``device``, or None without any."""
        return next((table for _, table in self._known(device)), None)

    def devices(self) -> list[str]:
        """The devices that there are tables for."""
        folders = [self.users(Device("any")).parent, *([self.folder] if self.folder else [])]
        found = [load(path) for folder in folders for path in sorted(folder.glob("*.json"))]
        return sorted({table.device.name for table in found if table is not None})

    def _known(self, device: Device) -> Sequence[tuple[str, Table]]:
        return _tables(_forgotten, self.users(device), self.folder, device)


@functools.lru_cache(maxsize=64)
def _tables(generation: int, users: Path, folder: Path | None, device: Device) -> tuple[tuple[str, Table], ...]:
    """Tables by source, the user's first; shipped ones of a GPU of the same target and size where this one has none."""
    found = [(USERS, load(users)), (SHIPPED, load(folder / device.file) if folder else None)]
    if found[1][1] is None and folder is not None and device.target:
        others = (load(path) for path in sorted(folder.glob("*.json")))
        for other in others:
            alike = other and (other.device.target, other.device.multiprocessors) == (
                device.target, device.multiprocessors,
            )  # fmt: skip
            if other and alike:
                found.append((f"{SHIPPED} of {other.device.name}", other))
    return tuple((source, table) for source, table in found if table is not None)


def _work(op: Op, args: Iterable[Any]) -> int:
    cost = op.spec.cost(*args)
    return cost.flops or cost.bytes


def _taking(op: Op, name: str, args: Sequence[Any], on_device: bool) -> str:
    """``name``, or its rung alone where the configuration is not one for these arguments; "" if that refuses them, is gone or is never chosen."""
    for candidate in (name, name.partition("@")[0]):
        try:
            rung = op.rung(candidate)
        except UnknownRung:
            return ""
        if rung.by_name:
            return ""
        if on_device and op.refusal(rung, *args) is None:
            return candidate
        dtype = next(value.dtype for value in args if isinstance(value, torch.Tensor))
        if not on_device and (rung.dtypes is None or dtype in rung.dtypes) and rung.limits(*args) is None:
            return candidate
    return ""


def _chosen(point: Point, winner: str, distance: float, source: str, work: int) -> Choice:
    rung, _, config = ("", "", "") if winner == TORCH else winner.partition("@")
    sizes = ", ".join(f"{name}={size}" for name, size in point.sizes.items())
    where = "measured at these sizes" if distance == 0 else f"measured at {sizes}, the nearest point"
    scale = work / point.work if point.work else 1.0
    scale = max(scale, min(1.0, LEAST / point.seconds)) if point.seconds else scale
    others = None if point.rival_seconds is None else scale * point.rival_seconds
    won = f"{'PyTorch' if winner == TORCH else 'ours'} is faster than {point.rival}" if point.rival else "alone"
    return Choice(rung or None, config, f"{won}, {where}", source, scale * point.seconds, point.rival, others)
