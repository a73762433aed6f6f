"""One tile of C per program, in Triton: fp8 tensor cores where supported, k-tiles added in float32.

``max_num_imprecise_acc`` is the number of products that wgmma may accumulate with its 13 bits after the binary point:
one k-tile. On other devices Triton computes fp8 exactly by conversion.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv
from warpwise.ops.scaled_matmul._shared import contiguous_operands, contiguous_scales, tile_of
from warpwise.triton import lib


@wt.jit
def scaled_matmul_tiled(
    a_ptr,
    b_ptr,
    c_ptr,
    scale_a_ptr,
    scale_b_ptr,
    m,
    n,
    k,
    BY_ROW: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """a: (m, k), b: (n, k), c: (m, n), row-major; scales: one each, or (m,) and (n,) if BY_ROW.

    Grid: cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs, in grouped raster order.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    tile_m, tile_n = lib.tile_index(tl.program_id(0), tiles_m, tiles_n, GROUP)
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    k_offsets = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * k + k_offsets[None, :]
    b_ptrs = b_ptr + columns[None, :] * k + k_offsets[:, None]
    row_mask, column_mask = rows < m, columns < n

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(a_ptrs, mask=row_mask[:, None] & (first + k_offsets[None, :] < k), other=0.0)
        b = tl.load(b_ptrs, mask=(first + k_offsets[:, None] < k) & column_mask[None, :], other=0.0)
        accumulator = tl.dot(a, b, accumulator, max_num_imprecise_acc=BLOCK_K)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    if BY_ROW:
        column_scales = tl.load(scale_b_ptr + columns, mask=column_mask, other=0.0)
        accumulator *= tl.load(scale_a_ptr + rows, mask=row_mask, other=0.0)[:, None] * column_scales[None, :]
    else:
        accumulator *= tl.load(scale_a_ptr) * tl.load(scale_b_ptr)
    tl.store(
        c_ptr + rows[:, None] * n + columns[None, :],
        accumulator.to(tl.bfloat16),
        mask=row_mask[:, None] & column_mask[None, :],
    )


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
    left, right = contiguous_operands(a, b)
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    (m, k), n = left.shape, right.shape[0]
    tile = tile_of(a, b)
    scaled_matmul_tiled[(cdiv(m, tile.m) * cdiv(n, tile.n),)](
        left, right, c, scale_a, scale_b, m, n, k, BY_ROW=by_row, GROUP=8, **tile.triton
    )
