"""The ladder of scaled_matmul, slowest idea first."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.default import default_of
from warpwise.gemm.lazy import lazy_launch
from warpwise.gemm.limits import grid_y_limit, hopper_limits, size_limit
from warpwise.operation import cdiv, make_rung
from warpwise.ops.scaled_matmul import k07_skinny
from warpwise.ops.scaled_matmul._shared import (
    CONFIGS,
    WIDE,
    configs_of,
    contiguous_operands,
    contiguous_scales,
    grid_of_tiles,
    launcher,
)

HERE = Path(__file__).parent
NAIVE = cuda.load(HERE / "k01_naive.cu")


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
    left, right = contiguous_operands(a, b)
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    (m, k), n = left.shape, right.shape[0]
    kernel = NAIVE[f"scaled_matmul_naive<{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](left, right, cuda.out(c), scale_a, scale_b, by_row, m, n, k)


def naive_limits(a: torch.Tensor, b: torch.Tensor, *scales: torch.Tensor) -> str | None:
    return grid_y_limit(a.shape[0], 8, "rows of a") or size_limit(a, b)


WARPGROUPS = cuda.load(HERE / "k04_warpgroups.cu")
TWO_K_TILE_PROMOTION = cuda.load(HERE / "k05_two_k_tile_promotion.cu")

RUNGS = (
    make_rung(HERE, "k01_naive", "one thread per element", naive, limits=naive_limits, strided=True),
    make_rung(HERE, "k02_triton_tiled", "tiles in Triton, sums of k-tiles added in float32",
              lazy_launch(f"{__package__}.k02_triton_tiled"), limits=grid_of_tiles, strided=True),
    make_rung(HERE, "k04_warpgroups", "Hopper: two warpgroups alternate, one adds while the other multiplies",
              launcher(WARPGROUPS, "scaled_matmul_warpgroups", WIDE), limits=hopper_limits,
              strided=True),
    make_rung(HERE, "k05_two_k_tile_promotion", "Hopper: sums of 256 products at a time in wgmma",
              launcher(TWO_K_TILE_PROMOTION, "scaled_matmul_two_k_tile_promotion", *CONFIGS), limits=hopper_limits,
              strided=True, configs=configs_of),
    make_rung(HERE, "k07_skinny", "Hopper, few rows as wgmma's n, K divided", k07_skinny.launch,
              limits=k07_skinny.limits, strided=True, configs=k07_skinny.configs),
)  # fmt: skip

default = default_of(RUNGS, "k05_two_k_tile_promotion", "k02_triton_tiled", "k07_skinny")
