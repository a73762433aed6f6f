"""The fastest matmul, and a second pass that scales and adds: three matrices of memory traffic after the matmul.

The matmul rounds its result to the output type, so this rung is for float32 only, where that is the type of the values.
"""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def addmm_pass(
    product_ptr,
    c_ptr,
    result_ptr,
    m,
    n,
    alpha,
    beta,
    c_row,
    c_column,
    ADDS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """product, result: (m, n), contiguous; c: (m, n), strided, read if ADDS.

    Grid: (cdiv(n, BLOCK_N), cdiv(m, BLOCK_M)) programs.
    """
    rows = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)[None, :]
    inside = (rows < m) & (columns < n)
    values = alpha * tl.load(product_ptr + rows * n + columns, mask=inside, other=0.0).to(tl.float32)
    if ADDS:
        values += beta * tl.load(c_ptr + rows * c_row + columns * c_column, mask=inside, other=0.0).to(tl.float32)
    tl.store(result_ptr + rows * n + columns, values.to(result_ptr.dtype.element_ty), mask=inside)
