"""Hopper's way in plain Triton: boxes by the copy engine, a program an SM, and the next tile's boxes fetched early.

The copy engine fetches whole boxes by descriptors, so that no thread computes addresses or masks; what lies past an
edge reads as zero and is not written. ``flatten`` makes one loop of the tiles and their slices: the pipeline does not
drain between tiles, and the slices of the next one arrive while this one's sums are written.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.triton import lib


@wt.jit
def matmul_descriptors(
    a, b, c, m, n, k, programs,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    A_TURNED: tl.constexpr, B_TURNED: tl.constexpr,
):  # fmt: skip
    """Descriptors of a: (m, k), or turned (k, m); b: (k, n), or turned (n, k); c: (m, n), in boxes of half a tile.

    Grid: ``programs``, of which each takes every programs-th tile.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, programs, flatten=True):
        tile_m, tile_n = lib.tile_index(tile, tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            a_slice = a.load([first, row]).T if A_TURNED else a.load([row, first])
            b_slice = b.load([column, first]).T if B_TURNED else b.load([first, column])
            sums = tl.dot(a_slice, b_slice, sums)
        # Half a tile at a time goes through shared memory, which leaves room for one more stage of slices.
        halves = tl.permute(tl.reshape(sums, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        c.store([row, column], left.to(c.dtype))
        c.store([row, column + BLOCK_N // 2], right.to(c.dtype))
