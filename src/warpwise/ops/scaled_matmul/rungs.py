"""The ladder of scaled_matmul, slowest idea first."""

from __future__ import annotations

from pathlib import Path

from warpwise import cuda
from warpwise.gemm.default import default_of
from warpwise.gemm.lazy import lazy_launch
from warpwise.operation import make_rung
from warpwise.ops.scaled_matmul import k01_naive, k07_skinny
from warpwise.ops.scaled_matmul._operands import grid_of_tiles
from warpwise.ops.scaled_matmul._shared import CONFIGS, WIDE, configs_of, hopper_limits, launcher

HERE = Path(__file__).parent
WARPGROUPS = cuda.load(HERE / "k04_warpgroups.cu")
TWO_K_TILE_PROMOTION = cuda.load(HERE / "k05_two_k_tile_promotion.cu")

RUNGS = (
    make_rung(HERE, "k01_naive", "one thread per element", k01_naive.launch, limits=k01_naive.limits, strided=True),
    make_rung(HERE, "k02_triton_tiled", "tiles in Triton, sums of k-tiles added in float32",
              lazy_launch(f"{__package__}.k02_triton_tiled"), limits=grid_of_tiles, strided=True),
    make_rung(HERE, "k04_warpgroups", "Hopper: two warpgroups alternate, one adds while the other multiplies",
              launcher(WARPGROUPS, "scaled_matmul_warpgroups", WIDE), limits=hopper_limits,
              strided=True),
    make_rung(HERE, "k05_two_k_tile_promotion", "Hopper: sums of 256 products at a time in wgmma",
              launcher(TWO_K_TILE_PROMOTION, "scaled_matmul_two_k_tile_promotion", *CONFIGS), limits=hopper_limits,
              strided=True, configs=configs_of),
    make_rung(HERE, "k07_skinny", "Hopper, few rows as wgmma's n, K divided", k07_skinny.launch,
              limits=k07_skinny.limits, devices=("cuda",), strided=True, configs=k07_skinny.configs),
)  # fmt: skip

default = default_of(RUNGS, "k05_two_k_tile_promotion", "k02_triton_tiled", "k07_skinny")
