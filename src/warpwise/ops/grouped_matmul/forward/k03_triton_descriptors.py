"""Boxes by the copy engine, a program an SM, and the loops over groups, tiles and slices made one.

A box of A may reach into the next group's rows: they only make sums that nobody stores. C is stored by masked pointers,
since a box would write there; a branch between boxes for whole tiles and masks for a group's last would keep Triton from
fusing the loops.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.ops.grouped_matmul._groups import at, heights
from warpwise.triton import lib


@wt.jit
def grouped_matmul_descriptors(
    a, b, ends_ptr, c_ptr, rows, n, k, groups, programs,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, GROUPS: tl.constexpr,
    B_TURNED: tl.constexpr,
):  # fmt: skip
    """Descriptors of a: (rows, k) and b: (groups, k, n), or turned (groups, n, k); c: (rows, n), row-major.

    Grid: ``programs``, of which each takes every programs-th tile, whatever group it is in.
    """
    tiles_n = tl.cdiv(n, BLOCK_N)
    index = tl.arange(0, GROUPS)
    starts, ends, tiles, before = heights(ends_ptr, groups, rows, BLOCK_M, GROUPS)
    past, products = at(index == groups, starts), at(index == groups, before) * tiles_n
    for tile in range(tl.program_id(0), at(index == groups, tiles) * tiles_n, programs):
        to, inside = tile_of(
            c_ptr, past + tile // tiles_n * BLOCK_M, tile % tiles_n * BLOCK_N, rows, n, BLOCK_M, BLOCK_N
        )
        tl.store(to, tl.zeros((BLOCK_M, BLOCK_N), c_ptr.dtype.element_ty), mask=inside)

    for tile in tl.range(tl.program_id(0), products, programs, flatten=True):
        mine = (before * tiles_n <= tile) & (tile < (before + tiles) * tiles_n)
        group, start, end, high = at(mine, index), at(mine, starts), at(mine, ends), at(mine, tiles)
        tile_m, tile_n = lib.tile_index(tile - at(mine, before) * tiles_n, high, tiles_n, GROUP)
        row, column = start + tile_m * BLOCK_M, tile_n * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            if B_TURNED:
                b_slice = b.load([group, column, first]).reshape(BLOCK_N, BLOCK_K).T
            else:
                b_slice = b.load([group, first, column]).reshape(BLOCK_K, BLOCK_N)
            sums = tl.dot(a.load([row, first]), b_slice, sums)
        to, inside = tile_of(c_ptr, row, column, end, n, BLOCK_M, BLOCK_N)
        tl.store(to, sums.to(c_ptr.dtype.element_ty), mask=inside)


@wt.jit
def tile_of(c_ptr, row, column, end, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Pointers to a tile of C, and which lie before row ``end`` and column n."""
    lines, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
    to = c_ptr + lines[:, None].to(tl.int64) * n + columns[None, :]
    return to, (lines[:, None] < end) & (columns[None, :] < n)
