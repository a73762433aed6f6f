"""Tuned tables of GEMM operations: kinds of operands, and the layouts and sizes to measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from warpwise.gemm.cases import product_cases
from warpwise.gemm.model import Model
from warpwise.gemm.operands import describe
from warpwise.operation import Case, Tables

# (N, K) of the layers of decoders with 8 and 70 billion parameters, whose feed-forward layers are 3.5 times as wide.
_WIDTHS = {
    "square": (4096, 4096),
    "up": (14336, 4096),
    "down": (4096, 14336),
    "wide": (8192, 8192),
    "wide_up": (28672, 8192),
}


_CUBES = (128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384)
SIZES = product_cases(
    {
        **{f"cube_{side}": (side, side, side) for side in _CUBES},
        **{f"tokens_{m}_{name}": (m, n, k) for name, (n, k) in _WIDTHS.items() for m in (1, 16, 64, 256, 2048)},
        **{f"shallow_{side}": (side, side, 512) for side in (1024, 2048, 4096, 8192)},
        **{f"deep_{side}": (side, side, 16384) for side in (128, 256, 512, 1024, 2048)},
        **{f"tall_{n}": (16384, n, 4096) for n in (64, 256, 1024)},
        "vocabulary": (512, 128256, 4096),
        **{f"ragged_{side}": (side, side, side) for side in (255, 1023, 2047, 4095, 8191)},
        "ragged_oblong": (1000, 3000, 777),
        "ragged_half": (2047, 1023, 4095),
        "ragged_tokens": (33, 4097, 4095),
    }
)


def column_major(matrices: torch.Tensor) -> torch.Tensor:
    """The same matrices with contiguous columns."""
    return matrices.mT.contiguous().mT


ARRANGEMENTS: Mapping[str, Callable[..., tuple[Any, ...]]] = {
    "nn": lambda a, b, *rest: (a, b, *rest),
    "nt": lambda a, b, *rest: (a, column_major(b), *rest),
    "tn": lambda a, b, *rest: (column_major(a), b, *rest),
    "tt": lambda a, b, *rest: (column_major(a), column_major(b), *rest),
}


def tables(
    op: str,
    folder: Path,
    model: Model,
    describe: Callable[..., tuple[str, dict[str, int]]] = describe,
    arrangements: Mapping[str, Callable[..., tuple[Any, ...]]] = ARRANGEMENTS,
    sizes: tuple[Case, ...] = SIZES,
) -> Tables:
    """The tables of an operation, shipped in ``folder/tuned``; by default its first two arguments are a and b."""
    return Tables(op, folder / "tuned", describe, arrangements, sizes, model.dtype_fallback, model)
