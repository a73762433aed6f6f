"""One tile per program; tl.trans changes the layout through shared memory, which Triton swizzles."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def transpose(in_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    # in: (rows, cols), out: (cols, rows), contiguous. Grid: one program per tile, in row-major order.
    tiles = tl.cdiv(cols, BLOCK_N)
    row0 = (tl.program_id(0) // tiles).to(tl.int64) * BLOCK_M
    col0 = (tl.program_id(0) % tiles).to(tl.int64) * BLOCK_N
    row = row0 + tl.arange(0, BLOCK_M)
    col = col0 + tl.arange(0, BLOCK_N)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    tile = tl.load(in_ptr + row[:, None] * cols + col[None, :], mask=inside)
    transposed = (col[:, None] < cols) & (row[None, :] < rows)
    tl.store(out_ptr + col[:, None] * rows + row[None, :], tl.trans(tile), mask=transposed)
