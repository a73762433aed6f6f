"""The choice from tables of measured points, and from a model between them.

A point holds a dtype, the kind of arguments (layouts, alignment), sizes, and the fastest candidate: a rung with its
configuration, or PyTorch. Between points a model predicts the times. Without a model, arguments get the choice of the
nearest point, by the Euclidean distance of the base-2 logarithms of the sizes, if it is near. If the configuration does
not fit, the rung uses its default configuration; if the rung does not take the arguments, the next nearest point
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpwise.arguments.values import first_tensor
from warpwise.cache import cache_dir
from warpwise.device.target import Device, device_of
from warpwise.operation.rung import UnknownRung
from warpwise.operation.spec import Case
from warpwise.tuned import TORCH, Cache, Choice, Table, TunedPoint, load

if TYPE_CHECKING:
    from warpwise.operation.op import Op

MAX_LOG2_DISTANCE = 0.5  # the largest distance of a near point: a factor of 1.4 in one dimension
ERROR_OF_DISTANCE = 0.04  # relative error of a point's times per power of two of distance
LAUNCH_FLOOR_S = 5e-6  # the time of the shortest launches on an H200, in seconds
USER, SHIPPED = "user's table", "shipped table"


@dataclass(frozen=True)
class Tables:
    """The tables of one operation: the user's in the cache, then those shipped in ``folder``.

    ``describe(*args)`` returns the kind of the arguments and their sizes by name. ``arrangements`` convert a case's
    arguments to each layout, for tuning: {"nn": ..., "nt": ...}. ``sizes`` are the default sizes of ``warpwise tune``.
    ``dtype_fallback`` maps a dtype to one whose points are used if it has no near point. ``model``, a
    ``warpwise.gemm.model.Model``, predicts times at sizes without a near point.
    """

    op: str
    folder: Path | None
    describe: Callable[..., tuple[str, Mapping[str, int]]]
    arrangements: Mapping[str, Callable[..., tuple[Any, ...]]] = field(default_factory=lambda: {"": lambda *args: args})
    sizes: tuple[Case, ...] = ()
    dtype_fallback: Mapping[str, str] = field(default_factory=dict)
    model: Any = None

    def user_file(self, device: Device) -> Path:
        """The file to which ``warpwise tune`` writes its measurements on ``device``."""
        return cache_dir() / "tuned" / self.op / device.file

    def choice(self, op: Op, *args: Any, device: Device | None = None) -> Choice | None:
        """The choice by the nearest point and the model, or None. ``device`` replaces the arguments' own device."""
        where, here = device or device_of(first_tensor(args).device), device is None
        kind, sizes = self.describe(*args)
        if min(sizes.values()) < 1:
            return None
        near = self._near(op, args, kind, sizes, where, here)
        return near if self.model is None else self.model.choice(op, args, kind, sizes, where, here, near)

    def _near(
        self, op: Op, args: Sequence[Any], kind: str, sizes: Mapping[str, int], where: Device, here: bool
    ) -> Choice | None:
        """The choice of the nearest point whose winner takes ``args``."""
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
                winner, rival = (_accepting(op, name, args, here) for name in (point.winner, point.rival))
                if winner:
                    return _choice(point, winner, rival, distance, source, cost.flops or cost.bytes)
        return None

    def tables(self, device: Device) -> list[Table]:
        """The tables used on ``device``, the user's first."""
        return [table for _, table in self._known(device)]

    def devices(self) -> list[str]:
        """The names of the devices that have a table."""
        folders = [self.user_file(Device("any")).parent, *([self.folder] if self.folder else [])]
        found = [load(path) for folder in folders for path in sorted(folder.glob("*.json"))]
        return sorted({table.device.name for table in found if table is not None})

    def _known(self, device: Device) -> Sequence[tuple[str, Table]]:
        key = self.user_file(device), self.folder, device
        return _READ[key] if key in _READ else _READ.setdefault(key, _read(*key))


_READ = Cache()  # from a user's file, a shipped folder and a device to their tables


def _read(user: Path, folder: Path | None, device: Device) -> tuple[tuple[str, Table], ...]:
    """Tables by source, the user's first. A shipped table also serves GPUs with the same target and SM count."""
    found = [(USER, load(user)), (SHIPPED, load(folder / device.file) if folder else None)]
    if found[1][1] is None and folder is not None and device.target:
        for other in (load(path) for path in sorted(folder.glob("*.json"))):
            same = (device.target, device.multiprocessors)
            if other and (other.device.target, other.device.multiprocessors) == same:
                found.append((f"{SHIPPED} of {other.device.name}", other))
    return tuple((source, table) for source, table in found if table is not None)


def _accepting(op: Op, name: str, args: Sequence[Any], here: bool) -> str:
    """``name``, or its rung if the configuration does not fit; "" if the rung is missing or refuses ``args``."""
    if name in (TORCH, ""):
        return name
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


def _choice(point: TunedPoint, winner: str, rival: str, distance: float, source: str, work: int) -> Choice:
    rung, _, config = ("", "", "") if winner == TORCH else winner.partition("@")
    sizes = ", ".join(f"{name}={size}" for name, size in point.sizes.items())
    where = "measured at these sizes" if distance == 0 else f"measured at {sizes}, the nearest point"
    scale = work / point.work if point.work else 1.0
    scale = max(scale, min(1.0, LAUNCH_FLOOR_S / point.seconds)) if point.seconds else scale
    others = None if point.rival_seconds is None or not rival else scale * point.rival_seconds
    won = f"{'PyTorch' if winner == TORCH else 'ours'} is faster than {point.rival}" if point.rival else "alone"
    error = ERROR_OF_DISTANCE * distance
    return Choice(rung or None, config, f"{won}, {where}", source, scale * point.seconds, rival, others, error)
