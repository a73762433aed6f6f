"""A tile of C a program, in Triton: fp8 by the tensor cores where they know it, sums of each slice added in float32.

``max_num_imprecise_acc`` is how many products Hopper's matrix units may sum by themselves, with 13 bits after the point
of the largest: a slice's, no more. Elsewhere Triton computes fp8 by its own means, exactly.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.triton import lib


@wt.jit
def scaled_matmul_tiled(
    a_ptr, b_ptr, c_ptr, scale_a_ptr, scale_b_ptr, m, n, k, BY_ROW: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """a: (m, k), b: (n, k), c: (m, n), row-major; scales: one each, or (m,) and (n,) if BY_ROW.

    Grid: cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs, in groups of GROUP rows of tiles, column by column inside.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    tile_m, tile_n = lib.tile_index(tl.program_id(0), tiles_m, tiles_n, GROUP)
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    depth = tl.arange(0, BLOCK_K)
    a_from = a_ptr + rows[:, None] * k + depth[None, :]
    b_from = b_ptr + columns[None, :] * k + depth[:, None]
    row_inside, column_inside = rows < m, columns < n

    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(a_from, mask=row_inside[:, None] & (first + depth[None, :] < k), other=0.0)
        b = tl.load(b_from, mask=(first + depth[:, None] < k) & column_inside[None, :], other=0.0)
        sums = tl.dot(a, b, sums, max_num_imprecise_acc=BLOCK_K)
        a_from += BLOCK_K
        b_from += BLOCK_K
    if BY_ROW:
        across = tl.load(scale_b_ptr + columns, mask=column_inside, other=0.0)
        sums *= tl.load(scale_a_ptr + rows, mask=row_inside, other=0.0)[:, None] * across[None, :]
    else:
        sums *= tl.load(scale_a_ptr) * tl.load(scale_b_ptr)
    tl.store(
        c_ptr + rows[:, None] * n + columns[None, :], sums.to(tl.bfloat16),
        mask=row_inside[:, None] & column_inside[None, :],
    )  # fmt: skip
