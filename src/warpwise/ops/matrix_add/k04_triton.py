"""One tile per program, any strides: tile shapes replace index arithmetic by threads, and Triton coalesces."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def matrix_add(
    a_ptr, b_ptr, out_ptr, rows, cols, a_row, a_col, b_row, b_col, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    # a, b: (rows, cols), strides in elements; out: (rows, cols), contiguous. Grid: one program per tile, row-major.
    tiles = tl.cdiv(cols, BLOCK_N)
    tile = tl.program_id(0)
    row = (tile // tiles).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    col = (tile % tiles).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inside = (row < rows) & (col < cols)
    a = tl.load(a_ptr + row * a_row + col * a_col, mask=inside)
    b = tl.load(b_ptr + row * b_row + col * b_col, mask=inside)
    tl.store(out_ptr + row * cols + col, a + b, mask=inside)
