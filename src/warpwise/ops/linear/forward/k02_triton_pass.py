"""The fastest matmul, then one pass that scales, adds, activates and adds: one read and one write per element.

The matmul rounds its result to the output type, so this rung is for float32 only, where that is the type of the sums.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.triton.lib import epilogue


@wt.jit
def linear_pass(
    product_ptr,
    y_ptr,
    before_ptr,
    bias_ptr,
    residual_ptr,
    scale_ptr,
    m,
    n,
    residual_row,
    residual_column,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """product, y, before: (m, n), contiguous; the others as in `epilogue`.

    Grid: (cdiv(n, BLOCK_N), cdiv(m, BLOCK_M)) programs.
    """
    rows = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    offsets = rows[:, None] * n + columns[None, :]
    sums = tl.load(product_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    before, y = epilogue(sums, rows, columns, m, n, bias_ptr, scale_ptr, ACTIVATION)
    if residual_ptr is not None:
        residual_ptrs = residual_ptr + rows[:, None] * residual_row + columns[None, :].to(tl.int64) * residual_column
        y += tl.load(residual_ptrs, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=inside)
    if before_ptr is not None:
        tl.store(before_ptr + offsets, before.to(before_ptr.dtype.element_ty), mask=inside)
