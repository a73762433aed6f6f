"""The launcher of k05."""

from __future__ import annotations

from pathlib import Path

from warpwise import cuda
from warpwise.ops.scaled_matmul._shared import tiled

TWO_K_TILE_PROMOTION = cuda.load(Path(__file__).with_suffix(".cu"))

launch = tiled(TWO_K_TILE_PROMOTION, "scaled_matmul_two_k_tile_promotion")
