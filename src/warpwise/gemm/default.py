"""The rung of a product that ``Op.default`` names, for tools that run one rung without tables or a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from warpwise.gemm.operands import Shape
from warpwise.operation import Rung, cdiv, sm_count

Operands = tuple[torch.Tensor, torch.Tensor]
SIDE = 128  # of a tile of C


def default_of(
    rungs: Sequence[Rung], *names: str, operands: Callable[..., Operands] = lambda a, b, *rest: (a, b)
) -> Callable[..., str | None]:
    """``default`` of an operation whose arguments contain the ``operands`` a (M, K) and b (K, N), or batches of them.

    ``names`` are rungs, those with the largest tiles first. The first that takes the arguments is the default where C
    has tiles of 128 x 128 for three quarters of the SMs, else the last; None if none takes them.
    """
    candidates = [next(rung for rung in rungs if rung.name == name) for name in names]

    def default(*args: object) -> str | None:
        a, b = operands(*args)
        shape = Shape.of(a, b)
        tiles = shape.batch * cdiv(shape.m, SIDE) * cdiv(shape.n, SIDE)
        fills = 4 * tiles >= 3 * sm_count(a)
        for rung in candidates if fills else reversed(candidates):
            taken = rung.dtypes is None or a.dtype in rung.dtypes
            if taken and (a.is_meta or a.device.type in rung.devices) and rung.limits(*args) is None:
                return rung.name
        return None

    return default
