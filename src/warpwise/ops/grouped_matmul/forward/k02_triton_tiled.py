"""A tile of one group's rows a program, in Triton: tensor cores for 2-byte types, fp32 units at full precision for float32.

The grid is the most tiles that any ends can give: one for each BLOCK_M rows and one more, half empty, for each group.
So nobody waits for the ends to come to the host; a program finds its group among them, or that it has nothing to do.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.ops.grouped_matmul._groups import at, heights


@wt.jit
def grouped_matmul_tiled(
    a_ptr, b_ptr, ends_ptr, c_ptr, rows, n, k, groups, a_row, a_column, b_matrix, b_row, b_column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """a: (rows, k), b: (groups, k, n), anyhow in memory: elements from one matrix, row or column to the next.

    c: (rows, n), row-major, zero past the last end. Grid: (cdiv(rows, BLOCK_M) + groups + 1) * cdiv(n, BLOCK_N) programs.
    """
    tiles_n = tl.cdiv(n, BLOCK_N)
    tile, tile_n = tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n
    starts, ends, tiles, before = heights(ends_ptr, groups, rows, BLOCK_M, GROUPS)
    mine = (before <= tile) & (tile < before + tiles)
    group, end = at(mine, tl.arange(0, GROUPS)), at(mine, ends)
    row = at(mine, starts) + (tile - at(mine, before)) * BLOCK_M

    # A program without a tile has end 0, so that nothing is inside. The last group has no matrix, and sums over nothing.
    depth_end = tl.where(group < groups, k, 0)
    line = (row + tl.arange(0, BLOCK_M)).to(tl.int64)
    column = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    depth = tl.arange(0, BLOCK_K).to(tl.int64)
    row_inside, column_inside = line[:, None] < end, column[None, :] < n
    a_from = a_ptr + line[:, None] * a_row + depth[None, :] * a_column
    b_from = b_ptr + group.to(tl.int64) * b_matrix + depth[:, None] * b_row + column[None, :] * b_column
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, depth_end, BLOCK_K):
        a = tl.load(a_from, mask=row_inside & (first + depth[None, :] < k), other=0.0)
        b = tl.load(b_from, mask=(first + depth[:, None] < k) & column_inside, other=0.0)
        # "ieee" keeps float32 from TF32, whose 10 bits of mantissa would be another operation.
        sums = tl.dot(a, b, sums, input_precision="ieee")
        a_from += BLOCK_K * tl.cast(a_column, tl.int64)
        b_from += BLOCK_K * tl.cast(b_row, tl.int64)
    to = c_ptr + line[:, None] * n + column[None, :]
    tl.store(to, sums.to(c_ptr.dtype.element_ty), mask=row_inside & column_inside)
