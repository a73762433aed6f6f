"""Which results of ``tl.max``, ``tl.min``, ``tl.argmax`` and ``tl.argmin`` an undefined lane can change.

It cannot if no value of its type exceeds the extreme of the defined lanes, as with booleans of which a defined one is
true. With equal values the tie-break decides about the index.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpwise.triton.compat import TensorHandle
from warpwise.triton.undefined import bounds_of

Array = np.ndarray[Any, np.dtype[Any]]


def changed_extremes(
    handle: TensorHandle, values: Array, lanes: Array, largest: bool, least_index: bool
) -> tuple[Array, Array] | None:
    """Return where the extremes along the first axis depend on undefined ``lanes``, and where their indices do.

    ``values`` are those of ``handle``, and indices increase along the axis. Unless ``least_index``, any of equal values
    may be chosen. Returns None if the undefined lanes can have any value.
    """
    bounds = bounds_of(handle)
    if bounds is None:
        return None
    furthest = bounds[1] if largest else bounds[0]
    if values.dtype == np.bool_:
        values = values.astype(np.uint8)
    lowest, highest = (-np.inf, np.inf) if values.dtype.kind == "f" else _limits(values.dtype)
    defined = np.where(lanes, np.asarray(lowest if largest else highest, values.dtype), values)
    best = defined.max(axis=0) if largest else defined.min(axis=0)
    wins = furthest > best if largest else furthest < best
    value = lanes.any(axis=0) & (wins | lanes.all(axis=0) | np.isnan(best))
    equal = lanes.any(axis=0) & (best == furthest)
    if least_index:
        first_defined = np.argmax(~lanes & (values == best), axis=0)
        equal &= np.argmax(lanes, axis=0) < first_defined
    return value, value | equal


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)
