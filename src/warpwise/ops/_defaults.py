"""``default`` of ladders without tables: the first rung of a list that takes the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpwise.operation import Rung, Spec


def first_taking(spec: Spec, rungs: Sequence[Rung], args: Sequence[Any], *names: str) -> str | None:
    """The first of ``names`` whose rung takes the dtype of the call ``args`` and its other properties, or None."""
    dtype, known = spec.dtype(args), {rung.name: rung for rung in rungs}
    for name in names:
        rung = known[name]
        if (rung.dtypes is None or dtype in rung.dtypes) and rung.limits(*args) is None:
            return name
    return None
