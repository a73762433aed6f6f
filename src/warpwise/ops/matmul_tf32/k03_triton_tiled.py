"""Tiles in Triton, products asked for in TF32; C's tile is computed transposed, so that no factor must be turned.

Hopper's matrix units read 4-byte factors from shared memory along k alone, and their first factor from registers, which
hold it in any order. A^T lies along k as A does, and B^T goes through registers: C^T = B^T A^T. Asked for A B, the
compiler turns each slice of B in shared memory, and takes almost twice as long.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.triton.lib import tile_index


@wt.jit
def matmul_tiled(
    a_ptr, b_ptr, c_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """a: (m, k), b: (k, n), c: (m, n), float32, row-major. Grid: cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs."""
    tile_m, tile_n = tile_index(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)

    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_from = a_ptr + rows[:, None] * k + depth[None, :]
    b_from = b_ptr + depth[:, None].to(tl.int64) * n + columns[None, :]
    row_inside, column_inside = rows[:, None] < m, columns[None, :] < n

    sums = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(a_from, mask=row_inside & (first + depth[None, :] < k), other=0.0)
        b = tl.load(b_from, mask=(first + depth[:, None] < k) & column_inside, other=0.0)
        sums = tl.dot(tl.trans(b), tl.trans(a), sums, input_precision="tf32")
        a_from += BLOCK_K
        b_from += BLOCK_K * tl.cast(n, tl.int64)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], tl.trans(sums), mask=row_inside & column_inside)
