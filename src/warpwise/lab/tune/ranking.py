"""The candidates that are measured where an operation meets arguments that no table has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpwise.arguments.values import first_tensor
from warpwise.lab.tune import candidates as possible
from warpwise.lab.verify.verdict import dtype_name
from warpwise.operation import Op, device_of


def candidates(op: Op, args: Sequence[Any], count: int) -> list[str]:
    """Return up to ``count`` rungs that take ``args``, as ``Op.rung`` takes them, the most promising first.

    These are the winners and rivals of the nearest points of the tables at any distance, then the first configuration
    of each rung, from the last rung of the ladder to the first.
    """
    if op.tables is None:
        return []
    device, dtype = first_tensor(args).device, dtype_name(op.spec.dtype(args))
    kind, sizes = op.tables.describe(*args)
    names = [rung.name for rung in possible.candidates(op, op.rungs, args, device)]
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(name.partition("@")[0], name)
    points = [
        point
        for table in op.tables.tables(device_of(device))
        for point in table.points
        if (point.dtype, point.kind) == (dtype, kind)
    ]
    points.sort(key=lambda point: point.distance(sizes))
    wanted = [name for point in points for name in (point.winner, point.rival)] + list(reversed(first.values()))
    found = [name if name in names else first.get(name.partition("@")[0]) for name in wanted]
    return list(dict.fromkeys(name for name in found if name is not None))[:count]
