"""Split-K for few tiles: programs divide K, and a second launch adds their partial sums in order; any strides.

One program per tile leaves most of the GPU idle if C has fewer tiles than the GPU has SMs. Splitting K keeps `splits`
times as many programs busy, at the cost of writing and reading `splits` float32 copies of C.
"""

import torch

from warpwise.gemm import partial_sums, triton_tiled
from warpwise.gemm.config import GemmConfig
from warpwise.ops.matmul._triton import split_k_configs


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or split_k_configs(a, b)[0])
    sums = c if tile.splits == 1 else c.new_empty((tile.splits, *c.shape), dtype=torch.float32)
    triton_tiled.launch(sums, a, b, tile)
    if tile.splits > 1:
        partial_sums.add(sums, c)
