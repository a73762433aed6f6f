"""A tile of C a program, in Triton: the tensor cores for 2-byte types, fp32 units at full precision for float32.

Programs are numbered in groups of GROUP rows of tiles, column by column inside: the tiles in flight then share GROUP
rows of A and few columns of B, which stay in L2. In plain row order each wave would read all of B.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.triton.lib import tile_index


@wt.jit
def matmul_tiled(
    a_ptr, b_ptr, c_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """a: (m, k), b: (k, n), c: (m, n), row-major. Grid: cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs."""
    tile_m, tile_n = tile_index(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)

    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_from = a_ptr + rows[:, None] * k + depth[None, :]
    b_from = b_ptr + depth[:, None].to(tl.int64) * n + columns[None, :]
    row_inside, column_inside = rows[:, None] < m, columns[None, :] < n

    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(a_from, mask=row_inside & (first + depth[None, :] < k), other=0.0)
        b = tl.load(b_from, mask=(first + depth[:, None] < k) & column_inside, other=0.0)
        # "ieee" keeps float32 from TF32, whose 10 bits of mantissa would be another operation.
        sums = tl.dot(a, b, sums, input_precision="ieee")
        a_from += BLOCK_K
        b_from += BLOCK_K * tl.cast(n, tl.int64)
    tl.store(
        c_ptr + rows[:, None] * n + columns[None, :], sums.to(c_ptr.dtype.element_ty), mask=row_inside & column_inside
    )
