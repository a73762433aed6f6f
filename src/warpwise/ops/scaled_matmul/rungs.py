"""The ladder of scaled_matmul, slowest idea first."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.default import default_of
from warpwise.gemm.limits import hopper_limits
from warpwise.operation import lazy_launch, make_rung
from warpwise.ops.scaled_matmul import k02_two_k_tile_promotion, k03_skinny
from warpwise.ops.scaled_matmul._shared import grid_of_tiles

HERE = Path(__file__).parent
RUNGS = (
    make_rung(HERE, "k01_triton_tiled", "tiles in Triton, sums of k-tiles added in float32",
              lazy_launch(f"{__package__}.k01_triton_tiled"), limits=grid_of_tiles, strided=True),
    make_rung(HERE, "k02_two_k_tile_promotion",
              "Hopper: two warpgroups alternate, one adds 256 products at a time while the other multiplies",
              k02_two_k_tile_promotion.launch, limits=hopper_limits, strided=True,
              configs=k02_two_k_tile_promotion.configs),
    make_rung(HERE, "k03_skinny", "Hopper, few rows as wgmma's n, K divided", k03_skinny.launch,
              limits=k03_skinny.limits, strided=True, configs=k03_skinny.configs),
)  # fmt: skip

default = default_of(RUNGS, "k02_two_k_tile_promotion", "k01_triton_tiled", "k03_skinny")
