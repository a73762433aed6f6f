"""Split-K for few tiles: programs divide K, and a second launch adds their partial sums in order; any strides.

One program per tile leaves most of the GPU idle if C has fewer tiles than the GPU has SMs. Splitting K keeps `splits`
times as many programs busy, at the cost of writing and reading `splits` float32 copies of C.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv
from warpwise.ops.matmul._triton import split_k_configs


@wt.jit
def matmul_split_k(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    a_row,
    a_column,
    b_row,
    b_column,
    splits,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """a: (m, k), b: (k, n), their strides in elements; c: (splits, m, n), row-major. Grid: tiles * splits programs.

    A split is a range of k-tiles of BLOCK_K; the splits differ by at most one k-tile.
    """
    program = tl.program_id(0)
    tiles_m = tl.cdiv(m, BLOCK_M)
    split, tile = (program % splits).to(tl.int64), program // splits
    tile_m, tile_n = tile % tiles_m, tile // tiles_m
    k_tiles = tl.cdiv(k, BLOCK_K)
    first = (k_tiles * split // splits * BLOCK_K).to(tl.int32)
    end = tl.minimum(k, (k_tiles * (split + 1) // splits * BLOCK_K).to(tl.int32))

    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    k_offsets = first + tl.arange(0, BLOCK_K).to(tl.int64)
    a_ptrs = a_ptr + rows[:, None] * a_row + k_offsets[None, :] * a_column
    b_ptrs = b_ptr + k_offsets[:, None] * b_row + columns[None, :] * b_column
    row_mask, column_mask = rows[:, None] < m, columns[None, :] < n

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(first, end, BLOCK_K):
        left = end - start
        a = tl.load(a_ptrs, mask=row_mask & (tl.arange(0, BLOCK_K)[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(tl.arange(0, BLOCK_K)[:, None] < left) & column_mask, other=0.0)
        # "ieee": the default for float32 is TF32, which has 10 bits of mantissa.
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        a_ptrs += BLOCK_K * tl.cast(a_column, tl.int64)
        b_ptrs += BLOCK_K * tl.cast(b_row, tl.int64)
    to = c_ptr + (split * m + rows[:, None]) * n + columns[None, :]
    tl.store(to, accumulator.to(c_ptr.dtype.element_ty), mask=row_mask & column_mask)


@wt.jit
def reduce_splits(partials_ptr, c_ptr, count, splits, BLOCK: tl.constexpr):
    """splits: (splits, count), c: (count,). Grid: cdiv(count, BLOCK) programs."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    accumulator = tl.zeros((BLOCK,), tl.float32)
    for split in range(splits):
        accumulator += tl.load(partials_ptr + split * tl.cast(count, tl.int64) + at, mask=at < count, other=0.0)
    tl.store(c_ptr + at, accumulator.to(c_ptr.dtype.element_ty), mask=at < count)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tile = GemmConfig.parse(config or split_k_configs(a, b)[0])
    splits = tile.splits
    sums = c if splits == 1 else c.new_empty((splits, m, n), dtype=torch.float32)
    matmul_split_k[(cdiv(m, tile.m) * cdiv(n, tile.n) * splits,)](
        a, b, sums, m, n, k, *a.stride(), *b.stride(), splits, **tile.triton
    )
    if splits > 1:
        reduce_splits[(cdiv(m * n, 1024),)](sums, c, m * n, splits, BLOCK=1024, num_warps=4)
