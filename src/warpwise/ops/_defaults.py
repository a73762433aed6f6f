"""``default`` of ladders without tables: the first rung of a list that takes the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from warpwise.arguments.values import first_tensor
from warpwise.operation import Rung


def first_taking(
    rungs: Sequence[Rung], args: Sequence[Any], *names: str, dtype: torch.dtype | None = None
) -> str | None:
    """The first of ``names`` whose rung takes ``args`` and ``dtype``, by default that of their first tensor, or
    None."""
    dtype, known = dtype or first_tensor(args).dtype, {rung.name: rung for rung in rungs}
    for name in names:
        rung = known[name]
        if (rung.dtypes is None or dtype in rung.dtypes) and rung.limits(*args) is None:
            return name
    return None
