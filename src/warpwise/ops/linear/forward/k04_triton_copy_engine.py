"""Programs that stay, one an SM, and move whole boxes: operands in, finished halves of a tile out, by the copy engine.

A box's address is one thread's work and its data touch no register on the way in; on the way out the store of one
tile goes on under the products of the next. A tile leaves in halves, so that the room for it is half as large and the
ring of slices one stage longer.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.triton.lib import epilogue, tile_index


@wt.jit
def linear_boxes(
    x, w, y, before, residual, bias_ptr, scale_ptr, m, n, k, programs,
    X_TURNED: tl.constexpr, W_TURNED: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Descriptors of x: (m, k), or turned (k, m); w: (n, k), or turned (k, n); y, before, residual: (m, n), in boxes of
    half a tile; bias: (n), scale: (m). What is None is left out. Grid: ``programs``."""
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, programs, flatten=True):
        tile_m, tile_n = tile_index(tile, tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            x_slice = x.load([first, row]).T if X_TURNED else x.load([row, first])
            w_slice = w.load([first, column]) if W_TURNED else w.load([column, first]).T
            sums = tl.dot(x_slice, w_slice, sums)
        left, right = tl.split(tl.permute(tl.reshape(sums, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
        _leave(left, row, column, y, before, residual, bias_ptr, scale_ptr, m, n, ACTIVATION)
        _leave(right, row, column + BLOCK_N // 2, y, before, residual, bias_ptr, scale_ptr, m, n, ACTIVATION)


@wt.jit
def _leave(sums, row, column, y, before, residual, bias_ptr, scale_ptr, m, n, ACTIVATION: tl.constexpr):
    rows, columns = row + tl.arange(0, sums.shape[0]), column + tl.arange(0, sums.shape[1])
    h, result = epilogue(sums, rows, columns, m, n, bias_ptr, scale_ptr, ACTIVATION)
    if residual is not None:
        result += residual.load([row, column]).to(tl.float32)
    y.store([row, column], result.to(y.dtype))
    if before is not None:
        before.store([row, column], h.to(before.dtype))
