"""The launcher of k02, and its configurations: clusters of two blocks, one above the other, with tiles of 128 rows."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.config import GemmConfig, parsed
from warpwise.gemm.operands import flags
from warpwise.gemm.persistent import two_widths, wide_columns
from warpwise.gemm.time_model import Product
from warpwise.operation import sm_count
from warpwise.ops.scaled_matmul._shared import contiguous_scales, evict_first, k_major
from warpwise.ops.scaled_matmul.tables import FAMILIES

TWO_K_TILE_PROMOTION = cuda.load(Path(__file__).with_suffix(".cu"))
WIDE, NARROW = CONFIGS = parsed("128x256x128_s4", "128x128x128_s6")
CLUSTER = (2, 1)


def candidates(product: Product) -> list[GemmConfig]:
    """Those of one width, then one of two widths.

    It comes last, because it has one more kind of tile and loads columns twice: faster where all clusters are busy for
    long (8192^3), slower elsewhere.
    """
    found = two_widths(WIDE._replace(cluster=CLUSTER), product, (WIDE.n,))
    return [*CONFIGS, *(config._replace(cluster=()) for config in found)]


configs = FAMILIES["k02_two_k_tile_promotion"].configs(candidates)


def whole_rings(config: GemmConfig, k: int) -> bool:
    """True if the k-tiles of a tile fill the stages a whole number of times."""
    return k > 0 and k % (config.stages * config.k) == 0


def launch(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, *,
    config: str | None = None,
) -> None:  # fmt: skip
    found = GemmConfig.parse(config or configs(a, b, scale_a, scale_b)[0], "scaled_matmul")
    tile = found._replace(tile_rows=0, cluster=CLUSTER)
    left, right = k_major(a, b)
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    if by_row and scale_b.data_ptr() % 8:  # read as float2
        scale_b = scale_b.clone()
    (m, k), n = left.shape, right.shape[0]
    by_map = n % 8 == 0  # TMA stores rows that begin on 16 bytes
    pairs, columns = tile.tiles(m, n)
    columns = found.tile_rows or columns
    grid = tile.launch(tile.clusters(pairs * columns, sm_count(a)))
    map_a, map_b = cuda.tensor_map(left, (128, 128)), cuda.tensor_map(right, (tile.n // 2, 128))
    map_c, rows = (cuda.tensor_map(c, (64, 64)), None) if by_map else (map_a, cuda.out(c))
    template = (
        f"{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}, {flags(by_row, by_map)}, {tile.n}, {tile.stages}, "
        f"{flags(found.tile_rows > 0, whole_rings(tile, k))}"
    )
    order = pairs, columns, 8, evict_first(m, n, k), wide_columns(found, n) if found.tile_rows else 0
    TWO_K_TILE_PROMOTION[f"scaled_matmul_two_k_tile_promotion<{template}>"][grid](
        map_a, map_b, map_c, rows, scale_a, scale_b, m, n, k, *order
    )
