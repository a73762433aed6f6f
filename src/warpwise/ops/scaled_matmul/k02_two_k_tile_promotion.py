"""The launcher of k02, and its configurations: clusters of two blocks, one above the other, with tiles of 128 rows."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.config import chosen, parsed
from warpwise.gemm.operands import flags
from warpwise.operation import sm_count
from warpwise.ops.scaled_matmul._shared import contiguous_scales, k_major, l2_hints
from warpwise.ops.scaled_matmul.tables import FAMILIES

TWO_K_TILE_PROMOTION = cuda.load(Path(__file__).with_suffix(".cu"))
WIDE, NARROW = CONFIGS = parsed("128x256x128_s4", "128x128x128_s6")
configs = FAMILIES["k02_two_k_tile_promotion"].configs(lambda product: CONFIGS)


def launch(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, *,
    config: str | None = None,
) -> None:  # fmt: skip
    tile = chosen("scaled_matmul", config or configs(a, b, scale_a, scale_b)[0], CONFIGS)._replace(cluster=(2, 1))
    left, right = k_major(a, b)
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    if by_row and scale_b.data_ptr() % 8:  # read as float2
        scale_b = scale_b.clone()
    (m, k), n = left.shape, right.shape[0]
    by_map = n % 8 == 0  # TMA stores rows that begin on 16 bytes
    pairs, columns = tile.tiles(m, n)
    grid = tile.launch(tile.clusters(pairs * columns, sm_count(a)))
    map_a, map_b = cuda.tensor_map(left, (128, 128)), cuda.tensor_map(right, (tile.n // 2, 128))
    map_c, rows = (cuda.tensor_map(c, (64, 64)), None) if by_map else (map_a, cuda.out(c))
    template = f"{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}, {flags(by_row, by_map)}, {tile.n}, {tile.stages}"
    TWO_K_TILE_PROMOTION[f"scaled_matmul_two_k_tile_promotion<{template}>"][grid](
        map_a, map_b, map_c, rows, scale_a, scale_b, m, n, k, pairs, columns, 8, l2_hints(m, n, k)
    )
