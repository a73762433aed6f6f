"""A tile of one matrix a program, in Triton: tensor cores for 2-byte types, fp32 units at full precision for float32.

Strides find the factors, so any layout is taken as it is. Programs are numbered matrix by matrix: those in flight share
few matrices, which stay in L2.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.triton import lib


@wt.jit
def batched_matmul_tiled(
    a_ptr, b_ptr, c_ptr, m, n, k, a_matrix, a_row, a_column, b_matrix, b_row, b_column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """a: (batch, m, k), b: (batch, k, n), anyhow in memory: elements from one matrix, row or column to the next.

    c: (batch, m, n), row-major. Grid: batch * cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    matrix = tl.program_id(0) // (tiles_m * tiles_n)
    tile_m, tile_n = lib.tile_index(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, GROUP)

    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    depth = tl.arange(0, BLOCK_K).to(tl.int64)
    row_inside, column_inside = rows[:, None] < m, columns[None, :] < n
    a_from = a_ptr + matrix.to(tl.int64) * a_matrix + rows[:, None] * a_row + depth[None, :] * a_column
    b_from = b_ptr + matrix.to(tl.int64) * b_matrix + depth[:, None] * b_row + columns[None, :] * b_column

    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(a_from, mask=row_inside & (first + depth[None, :] < k), other=0.0)
        b = tl.load(b_from, mask=(first + depth[:, None] < k) & column_inside, other=0.0)
        # "ieee" keeps float32 from TF32, whose 10 bits of mantissa would be another operation.
        sums = tl.dot(a, b, sums, input_precision="ieee")
        a_from += BLOCK_K * tl.cast(a_column, tl.int64)
        b_from += BLOCK_K * tl.cast(b_row, tl.int64)
    to = c_ptr + (matrix.to(tl.int64) * m + rows[:, None]) * n + columns[None, :]
    tl.store(to, sums.to(c_ptr.dtype.element_ty), mask=row_inside & column_inside)
