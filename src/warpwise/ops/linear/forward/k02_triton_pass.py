"""The fastest product, and behind it one pass that scales, adds, activates and adds again: one read, one write an element.

The product is rounded on its way, so this is a rung for float32 alone, where that rounding is the sum's own.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.triton.lib import epilogue


@wt.jit
def linear_pass(
    product_ptr, y_ptr, before_ptr, bias_ptr, residual_ptr, scale_ptr, m, n, residual_row, residual_column,
    ACTIVATION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """product, y, before: (m, n), contiguous; the others as `epilogue` takes them. Grid: (cdiv(n, BLOCK_N), cdiv(m, BLOCK_M))."""
    rows = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    places = rows[:, None] * n + columns[None, :]
    sums = tl.load(product_ptr + places, mask=inside, other=0.0).to(tl.float32)
    before, y = epilogue(sums, rows, columns, m, n, bias_ptr, scale_ptr, ACTIVATION)
    if residual_ptr is not None:
        from_residual = residual_ptr + rows[:, None] * residual_row + columns[None, :].to(tl.int64) * residual_column
        y += tl.load(from_residual, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + places, y.to(y_ptr.dtype.element_ty), mask=inside)
    if before_ptr is not None:
        tl.store(before_ptr + places, before.to(before_ptr.dtype.element_ty), mask=inside)
