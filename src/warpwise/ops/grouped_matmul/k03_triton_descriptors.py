"""Boxes by the copy engine, a program an SM, and tiles that end where their group ends, so that the engine clips them.

A box that reaches into the next group's rows must not write there, and a branch between a box and masked stores would
break the one loop that keeps loads in flight between tiles. So C is described as (rows, rows, n) with two equal
strides: element (x, y, j) is row x + y. At x the group's first row, y counts rows within the group, and what lies
before them, y < 0, is outside: the engine writes nothing there. A group's odd rows make its first tile, which begins
above the group.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.ops.grouped_matmul._groups import at, heights
from warpwise.triton import lib


@wt.jit
def grouped_matmul_descriptors(
    a, b, ends_ptr, c, rows, n, k, groups, programs,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, GROUPS: tl.constexpr,
    B_TURNED: tl.constexpr,
):  # fmt: skip
    """Descriptors of a: (rows, k), b: (groups, k, n), or turned (groups, n, k), and c: (rows, rows, n) as above, in boxes
    of half a tile.

    Grid: ``programs``, of which each takes every programs-th tile, whatever group it is in.
    """
    half: tl.constexpr = BLOCK_N // 2
    tiles_n = tl.cdiv(n, BLOCK_N)
    index = tl.arange(0, GROUPS)
    starts, ends, tiles, before = heights(ends_ptr, groups, rows, BLOCK_M, GROUPS)
    products = at(index == groups, before) * tiles_n
    zeros = tl.zeros((1, BLOCK_M, half), c.dtype)
    past = at(index == groups, starts)
    for tile in range(tl.program_id(0), at(index == groups, tiles) * tiles_n, programs):
        row, column = rows - (tile // tiles_n + 1) * BLOCK_M, tile % tiles_n * BLOCK_N
        c.store([past, row - past, column], zeros)
        c.store([past, row - past, column + half], zeros)

    for tile in tl.range(tl.program_id(0), products, programs, flatten=True):
        mine = (before * tiles_n <= tile) & (tile < (before + tiles) * tiles_n)
        group, start, end, high = at(mine, index), at(mine, starts), at(mine, ends), at(mine, tiles)
        tile_m, tile_n = lib.tile_index(tile - at(mine, before) * tiles_n, high, tiles_n, GROUP)
        row, column = end - (high - tile_m) * BLOCK_M, tile_n * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            if B_TURNED:
                b_slice = b.load([group, column, first]).reshape(BLOCK_N, BLOCK_K).T
            else:
                b_slice = b.load([group, first, column]).reshape(BLOCK_K, BLOCK_N)
            sums = tl.dot(a.load([row, first]), b_slice, sums)
        halves = tl.permute(tl.reshape(sums, (BLOCK_M, 2, half)), (0, 2, 1))
        left, right = tl.split(halves)
        c.store([start, row - start, column], left.to(c.dtype).reshape(1, BLOCK_M, half))
        c.store([start, row - start, column + half], right.to(c.dtype).reshape(1, BLOCK_M, half))
