"""The cases that verify a GEMM of a (M, K) and b (K, N), and the sizes at which it is timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from warpwise.operation import Case

Sizes = tuple[int, int, int]  # m, n, k
CASES: Mapping[str, Sizes] = {
    "square": (48, 48, 48),
    "ragged": (33, 61, 17),
    "several_tiles": (130, 136, 24),
    "ragged_tiles": (129, 67, 19),
    "deep": (5, 3, 515),
    "one_row": (1, 70, 33),
    "one_element": (1, 1, 1),
    "empty": (0, 7, 5),
    "empty_sum": (6, 7, 0),
    "huge": (20, 24, 36),
    "strided": (30, 28, 20),
    "unaligned": (32, 40, 48),
}
TIMED: Mapping[str, Sizes] = {
    "square": (4096, 4096, 4096),
    "small": (1024, 1024, 1024),
    "large": (8192, 8192, 8192),
    "ragged": (4095, 4095, 4095),
    "oblong": (1000, 3000, 777),
}


def product_cases(
    sizes: Mapping[str, Sizes],
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    otherwise: Mapping[str, Any] | None = None,
) -> tuple[Case, ...]:
    """One case for each name. The name selects huge values and a layout; attributes are its own, or ``otherwise``."""
    found = []
    for name, shape in sizes.items():
        values: Literal["huge", "normal"] = "huge" if name.startswith("huge") else "normal"
        layout = name if name in ("strided", "unaligned") else "contiguous"
        given = (attributes or {}).get(name, otherwise or {})
        found.append(Case(name, dict(zip("mnk", shape, strict=True)), given, values=values, layout=layout))
    return tuple(found)
