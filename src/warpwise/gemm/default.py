"""``Op.default`` of a GEMM operation: the rung for tools that run one rung without tables or a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from warpwise.gemm.operands import Shape
from warpwise.operation import Rung, cdiv, sm_count

Operands = tuple[torch.Tensor, torch.Tensor]
SIDE = 128  # of a tile of C


def default_of(
    rungs: Sequence[Rung], *names: str, operands: Callable[..., Operands] = lambda a, b, *rest: (a, b)
) -> Callable[..., str | None]:
    """``default`` of an operation. ``operands(*args)`` returns a (M, K) and b (K, N), or batches of them.

    ``names`` are rungs, those with the largest tiles first. Of the rungs that take the arguments, the default is the
    first one if C has a tile of 128 x 128 for at least three quarters of the SMs, else the last one; None without any.
    """
    candidates = _named(rungs, names)

    def default(*args: object) -> str | None:
        a, b = operands(*args)
        shape = Shape.of(a, b)
        tiles = shape.batch * cdiv(shape.m, SIDE) * cdiv(shape.n, SIDE)
        fills = 4 * tiles >= 3 * sm_count(a)
        return _taking(candidates if fills else reversed(candidates), a, args)

    return default


def first_of(rungs: Sequence[Rung], *names: str) -> Callable[..., str | None]:
    """``default`` of an operation: the first of ``names`` that takes the arguments, or None."""
    return lambda *args: _taking(_named(rungs, names), args[0], args)


def _named(rungs: Sequence[Rung], names: Sequence[str]) -> list[Rung]:
    return [next(rung for rung in rungs if rung.name == name) for name in names]


def _taking(rungs: Iterable[Rung], like: torch.Tensor, args: Sequence[object]) -> str | None:
    for rung in rungs:
        taken = rung.dtypes is None or like.dtype in rung.dtypes
        if taken and (like.is_meta or like.device.type in rung.devices) and rung.limits(*args) is None:
            return rung.name
    return None
