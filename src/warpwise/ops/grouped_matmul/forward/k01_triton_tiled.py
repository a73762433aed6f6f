"""One tile of one group's rows per program: tensor cores for 2-byte types, fp32 units for float32.

The grid is the maximum number of tiles for any `ends`: one for each BLOCK_M rows, and one more, partly empty, for
each group. The host therefore does not wait for `ends`; a program finds its group on the device, or exits.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm.config import parsed
from warpwise.operation import cdiv
from warpwise.ops.grouped_matmul._groups import at, heights
from warpwise.ops.grouped_matmul.forward._triton import padded_groups

FLOAT32, HALVES = parsed("64x64x32_w4_s3", "128x128x64_w8_s3")


@wt.jit
def grouped_matmul_tiled(
    a_ptr,
    b_ptr,
    ends_ptr,
    c_ptr,
    rows,
    n,
    k,
    groups,
    a_row,
    a_column,
    b_matrix,
    b_row,
    b_column,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """a: (rows, k), b: (groups, k, n), with strides of matrix, row and column in elements.

    c: (rows, n), row-major, zero past the last end.

    Grid: (cdiv(rows, BLOCK_M) + groups + 1) * cdiv(n, BLOCK_N) programs.
    """
    tiles_n = tl.cdiv(n, BLOCK_N)
    tile, tile_n = tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n
    starts, ends, tiles, before = heights(ends_ptr, groups, rows, BLOCK_M, GROUPS)
    is_own = (before <= tile) & (tile < before + tiles)
    group, end = at(is_own, tl.arange(0, GROUPS)), at(is_own, ends)
    row = at(is_own, starts) + (tile - at(is_own, before)) * BLOCK_M

    # A program without a tile has end 0, so all its rows are masked. Rows past the last end have no matrix: k is 0.
    k_end = tl.where(group < groups, k, 0)
    line = (row + tl.arange(0, BLOCK_M)).to(tl.int64)
    column = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    k_offsets = tl.arange(0, BLOCK_K).to(tl.int64)
    row_mask, column_mask = line[:, None] < end, column[None, :] < n
    a_ptrs = a_ptr + line[:, None] * a_row + k_offsets[None, :] * a_column
    b_ptrs = b_ptr + group.to(tl.int64) * b_matrix + k_offsets[:, None] * b_row + column[None, :] * b_column
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k_end, BLOCK_K):
        a = tl.load(a_ptrs, mask=row_mask & (first + k_offsets[None, :] < k), other=0.0)
        b = tl.load(b_ptrs, mask=(first + k_offsets[:, None] < k) & column_mask, other=0.0)
        # "ieee": the default for float32 is TF32, which has 10 bits of mantissa.
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        a_ptrs += BLOCK_K * tl.cast(a_column, tl.int64)
        b_ptrs += BLOCK_K * tl.cast(b_row, tl.int64)
    to = c_ptr + line[:, None] * n + column[None, :]
    tl.store(to, accumulator.to(c_ptr.dtype.element_ty), mask=row_mask & column_mask)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> None:
    (rows, k), (groups, _, n) = a.shape, b.shape
    tile = FLOAT32 if a.dtype == torch.float32 else HALVES
    programs = (cdiv(rows, tile.m) + groups + 1) * cdiv(n, tile.n)
    grouped_matmul_tiled[(programs,)](
        *(a, b, offsets.contiguous(), c, rows, n, k, groups, *a.stride(), *b.stride()),
        GROUPS=padded_groups(groups),
        **tile.triton,
    )
