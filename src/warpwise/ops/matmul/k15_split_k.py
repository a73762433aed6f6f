"""Split-K for few tiles: programs divide K, and a second launch adds their partial sums in order; any strides.

One program per tile leaves most of the GPU idle if C has fewer tiles than the GPU has SMs. Splitting K keeps `splits`
times as many programs busy, at the cost of writing and reading `splits` float32 copies of C.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm import triton_tiled
from warpwise.gemm.config import GemmConfig
from warpwise.operation import cdiv
from warpwise.ops.matmul._triton import split_k_configs


@wt.jit
def reduce_splits(partials_ptr, c_ptr, count, splits, BLOCK: tl.constexpr):
    """splits: (splits, count), c: (count,). Grid: cdiv(count, BLOCK) programs."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    accumulator = tl.zeros((BLOCK,), tl.float32)
    for split in range(splits):
        accumulator += tl.load(partials_ptr + split * tl.cast(count, tl.int64) + at, mask=at < count, other=0.0)
    tl.store(c_ptr + at, accumulator.to(c_ptr.dtype.element_ty), mask=at < count)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or split_k_configs(a, b)[0])
    sums = c if tile.splits == 1 else c.new_empty((tile.splits, *c.shape), dtype=torch.float32)
    triton_tiled.launch(sums, a, b, tile)
    if tile.splits > 1:
        reduce_splits[(cdiv(c.numel(), 1024),)](sums, c, c.numel(), tile.splits, BLOCK=1024, num_warps=4)
