"""One tile of one group's matrix per program, in Triton, which accumulates over the rows of the group.

All matrices have the same size, so the grid is known on the host; the number of k-tiles is read from `ends`. Rows are
masked in both operands: a row of the next group may contain an infinity, and 0 times infinity is NaN.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm.config import parsed
from warpwise.operation import cdiv

FLOAT32, HALVES = parsed("64x64x32_w4_s3", "128x128x64_w8_s3")


@wt.jit
def grouped_matmul_backward_tiled(
    a_ptr,
    grad_ptr,
    ends_ptr,
    result_ptr,
    rows,
    n,
    k,
    a_row,
    a_column,
    grad_row,
    grad_column,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """a: (rows, k), grad: (rows, n), with strides of row and column in elements.

    result: (groups, k, n), row-major. Grid: groups * cdiv(k, BLOCK_M) * cdiv(n, BLOCK_N) programs.
    """
    tiles_m, tiles_n = tl.cdiv(k, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group, tile = tl.program_id(0) // (tiles_m * tiles_n), tl.program_id(0) % (tiles_m * tiles_n)
    start = tl.maximum(tl.load(ends_ptr + group - 1, mask=group > 0, other=0), 0)
    end = tl.minimum(tl.load(ends_ptr + group), rows)

    line = (tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    column = (tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    row = start + tl.arange(0, BLOCK_K).to(tl.int64)
    line_mask, column_mask = line[:, None] < k, column[None, :] < n
    a_ptrs = a_ptr + line[:, None] * a_column + row[None, :] * a_row
    grad_ptrs = grad_ptr + row[:, None] * grad_row + column[None, :] * grad_column
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, end - start, BLOCK_K):
        row_mask = first + row < end
        a = tl.load(a_ptrs, mask=line_mask & row_mask[None, :], other=0.0)
        grad = tl.load(grad_ptrs, mask=row_mask[:, None] & column_mask, other=0.0)
        accumulator = tl.dot(a, grad, accumulator, input_precision="ieee")
        a_ptrs += BLOCK_K * tl.cast(a_row, tl.int64)
        grad_ptrs += BLOCK_K * tl.cast(grad_row, tl.int64)
    to = result_ptr + (group.to(tl.int64) * k + line[:, None]) * n + column[None, :]
    tl.store(to, accumulator.to(result_ptr.dtype.element_ty), mask=line_mask & column_mask)


def launch(result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> None:
    (rows, k), n = a.shape, grad_output.shape[1]
    tile = FLOAT32 if a.dtype == torch.float32 else HALVES
    grouped_matmul_backward_tiled[(offsets.shape[0] * cdiv(k, tile.m) * cdiv(n, tile.n),)](
        *(a, grad_output, offsets.contiguous(), result, rows, n, k, *a.stride(), *grad_output.stride()), **tile.triton
    )
