"""A tile of one group's matrix a program, in Triton, which sums over the group's rows.

All matrices have one size, so the grid is known; only how deep a sum runs is read from the ends. Rows are masked at
both factors: a row of the next group may hold an infinity, and 0 times it would be NaN.
"""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def grouped_matmul_backward_tiled(
    a_ptr, grad_ptr, ends_ptr, result_ptr, rows, n, k, a_row, a_column, grad_row, grad_column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """a: (rows, k), grad: (rows, n), anyhow in memory: elements from one row or column to the next.

    result: (groups, k, n), row-major. Grid: groups * cdiv(k, BLOCK_M) * cdiv(n, BLOCK_N) programs.
    """
    tiles_m, tiles_n = tl.cdiv(k, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group, tile = tl.program_id(0) // (tiles_m * tiles_n), tl.program_id(0) % (tiles_m * tiles_n)
    start = tl.maximum(tl.load(ends_ptr + group - 1, mask=group > 0, other=0), 0)
    end = tl.minimum(tl.load(ends_ptr + group), rows)

    line = (tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    column = (tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    row = start + tl.arange(0, BLOCK_K).to(tl.int64)
    line_inside, column_inside = line[:, None] < k, column[None, :] < n
    a_from = a_ptr + line[:, None] * a_column + row[None, :] * a_row
    grad_from = grad_ptr + row[:, None] * grad_row + column[None, :] * grad_column
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, end - start, BLOCK_K):
        inside = first + row < end
        a = tl.load(a_from, mask=line_inside & inside[None, :], other=0.0)
        grad = tl.load(grad_from, mask=inside[:, None] & column_inside, other=0.0)
        sums = tl.dot(a, grad, sums, input_precision="ieee")
        a_from += BLOCK_K * tl.cast(a_row, tl.int64)
        grad_from += BLOCK_K * tl.cast(grad_row, tl.int64)
    to = result_ptr + (group.to(tl.int64) * k + line[:, None]) * n + column[None, :]
    tl.store(to, sums.to(result_ptr.dtype.element_ty), mask=line_inside & column_inside)
