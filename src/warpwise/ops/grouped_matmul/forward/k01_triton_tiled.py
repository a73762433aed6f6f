"""Tiles of one group's rows per program: tensor cores for 2-byte types, fp32 units for float32.

The grid is the maximum number of tiles for any `ends`: one for each BLOCK_M rows, and one more, partly empty, for
each group. The host therefore does not wait for `ends`; a program finds its group on the device. Few tiles of float32
have their K divided among several programs, whose sums a second kernel adds. The kernel is ``gemm/triton_tiled.py``.
"""

import torch

from warpwise.gemm import partial_sums, triton_tiled
from warpwise.gemm.config import GemmConfig
from warpwise.ops.grouped_matmul.forward._triton import tiled_configs


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or tiled_configs(a, b, offsets)[0])
    sums = c if tile.splits == 1 else c.new_empty((tile.splits, *c.shape), dtype=torch.float32)
    triton_tiled.launch(sums, a, b, tile, ends=offsets.contiguous())
    if tile.splits > 1:
        partial_sums.add(sums, c)
