"""The launcher of k02, and its configurations: clusters of two blocks, one above the other, with tiles of 128 rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.config import GemmConfig, chosen, parsed
from warpwise.gemm.operands import flags
from warpwise.gemm.time_model import Product
from warpwise.operation import cdiv, sm_count
from warpwise.ops.scaled_matmul._shared import contiguous_scales, k_major, l2_hints
from warpwise.ops.scaled_matmul.tables import FAMILIES

TWO_K_TILE_PROMOTION = cuda.load(Path(__file__).with_suffix(".cu"))
WIDE, NARROW = CONFIGS = parsed("128x256x128_s4", "128x128x128_s6")
NARROWED = 248  # columns of a narrower tile of a variable configuration
MAX_RATIO = 0.995  # the busiest cluster's columns divided by its columns with only tiles of 256 columns


def variable(tile_columns: int) -> GemmConfig:
    """``tile_columns`` columns of tiles, with 256 or 248 columns of C."""
    return WIDE._replace(tile_rows=tile_columns)


def wide_columns(config: GemmConfig, n: int) -> int | None:
    """The number of tile columns with 256 columns that cover n columns; None if even all of them do not."""
    left = max(0, cdiv(n - NARROWED * config.tile_rows, WIDE.n - NARROWED))
    return left if left <= config.tile_rows else None


def candidates(product: Product) -> Iterator[GemmConfig]:
    """Those of one width, and the shortest variable configuration if it gives the busiest cluster fewer columns.

    It comes last, because it has one more kind of tile and loads columns twice: faster where all clusters are busy for
    long (8192^3), slower elsewhere.
    """
    yield from CONFIGS
    pairs, most = cdiv(product.m, 2 * WIDE.m), max(1, product.sms // 2)

    def busiest(tile_columns: int) -> float:  # an estimate of the columns, summed over the cluster's tiles
        return cdiv(pairs * tile_columns, most) * product.n / tile_columns

    whole = cdiv(product.n, WIDE.n)
    counts = range(max(1, whole), cdiv(product.n, 8) * 8 // NARROWED + 1)
    best = min(counts, key=busiest, default=0)
    if best and busiest(best) < MAX_RATIO * cdiv(pairs * whole, most) * WIDE.n:
        yield variable(best)


configs = FAMILIES["k02_two_k_tile_promotion"].configs(candidates)


def chosen_tile(config: str, n: int) -> GemmConfig:
    """The configuration of that name for n columns. Raises ``ValueError`` for one of another kernel."""
    found = GemmConfig.parse(config, "scaled_matmul")
    if found.tile_rows and found == variable(found.tile_rows) and wide_columns(found, n) is not None:
        return found
    return chosen("scaled_matmul", config, CONFIGS)


def whole_rings(config: GemmConfig, k: int) -> bool:
    """True if the k-tiles of a tile fill the stages a whole number of times."""
    return k > 0 and k % (config.stages * config.k) == 0


def launch(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, *,
    config: str | None = None,
) -> None:  # fmt: skip
    found = chosen_tile(config or configs(a, b, scale_a, scale_b)[0], b.shape[1])
    tile = found._replace(cluster=(2, 1))
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
    order = pairs, columns, 8, l2_hints(m, n, k), wide_columns(found, n) or 0
    TWO_K_TILE_PROMOTION[f"scaled_matmul_two_k_tile_promotion<{template}>"][grid](
        map_a, map_b, map_c, rows, scale_a, scale_b, m, n, k, *order
    )
