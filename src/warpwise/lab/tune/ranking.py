"""The candidates that online tuning measures for arguments without a point in a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from warpwise.arguments.values import first_tensor
from warpwise.lab.tune import candidates as possible
from warpwise.lab.verify.verdict import dtype_name
from warpwise.operation import Op, device_of


def candidates(op: Op, args: Sequence[Any], count: int) -> list[str]:
    """Return up to ``count`` rungs that take ``args``, as ``Op.rung`` takes them, the most promising first.

    These are the winner and rival of the nearest point of the tables; those that the operation's model predicts to be
    fastest, one configuration of each rung first; then the first configuration of each rung, from the last rung of the
    ladder to the first.
    """
    if op.tables is None:
        return []
    device, dtype = device_of(first_tensor(args).device), dtype_name(op.spec.dtype(args))
    kind, sizes = op.tables.describe(*args)
    names = [rung.name for rung in possible.candidates(op, op.rungs, args, first_tensor(args).device)]
    first = _first_of_each_rung(names)
    points = [
        point
        for table in op.tables.tables(device)
        for point in table.points
        if (point.dtype, point.kind) == (dtype, kind)
    ]
    points.sort(key=lambda point: point.distance(sizes))
    predicted: list[str] = []
    if op.tables.model is not None:
        found = op.tables.model.predictions(op, args, kind, sizes, device, True)
        ranked = [each.name for each in sorted(found, key=lambda each: each.cautious(0.0))]
        predicted = list(_first_of_each_rung(ranked).values())
        points = points[:1]
    wanted = [name for point in points for name in (point.winner, point.rival)]
    wanted += [*predicted, *reversed(first.values())]
    chosen = [name if name in names else first.get(name.partition("@")[0]) for name in wanted]
    return list(dict.fromkeys(name for name in chosen if name is not None))[:count]


def _first_of_each_rung(names: Iterable[str]) -> dict[str, str]:
    """The first name, ``name@config``, of each rung, in their order."""
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(name.partition("@")[0], name)
    return first
