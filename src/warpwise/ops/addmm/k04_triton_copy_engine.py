"""Programs that stay, one an SM: operands and the matrix that is added arrive in boxes by the copy engine, results leave so.

What is added takes half a tile of shared memory beside the half that leaves, and so a stage of the ring of slices. A
row, column or number that is broadcast is read by its strides.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.triton.lib import tile_index


@wt.jit
def addmm_boxes(
    a, b, c, c_ptr, result, m, n, k, alpha, beta, c_row, c_column, programs,
    A_TURNED: tl.constexpr, B_TURNED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Descriptors of a: (m, k), or turned (k, m); b: (k, n), or turned (n, k); result, c: (m, n), in boxes of half a
    tile. A broadcast c comes as c_ptr with its strides; where both are None nothing is added. Grid: ``programs``."""
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, programs, flatten=True):
        tile_m, tile_n = tile_index(tile, tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            a_slice = a.load([first, row]).T if A_TURNED else a.load([row, first])
            b_slice = b.load([column, first]).T if B_TURNED else b.load([first, column])
            sums = tl.dot(a_slice, b_slice, sums)
        left, right = tl.split(tl.permute(tl.reshape(sums, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
        _leave(left, row, column, c, c_ptr, result, m, n, alpha, beta, c_row, c_column)
        _leave(right, row, column + BLOCK_N // 2, c, c_ptr, result, m, n, alpha, beta, c_row, c_column)


@wt.jit
def _leave(sums, row, column, c, c_ptr, result, m, n, alpha, beta, c_row, c_column):
    sums *= alpha
    if c is not None:
        sums += beta * c.load([row, column]).to(tl.float32)
    if c_ptr is not None:
        rows = (row + tl.arange(0, sums.shape[0])).to(tl.int64)[:, None]
        columns = (column + tl.arange(0, sums.shape[1])).to(tl.int64)[None, :]
        inside = (rows < m) & (columns < n)
        sums += beta * tl.load(c_ptr + rows * c_row + columns * c_column, mask=inside, other=0.0).to(tl.float32)
    result.store([row, column], sums.to(result.dtype))
