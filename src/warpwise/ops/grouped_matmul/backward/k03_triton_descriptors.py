"""Boxes of both factors by the copy engine, which reads rows before the group as zero.

The engine clips boxes at the edges that a descriptor knows, and a group's edge is known to none. So both factors are
described as (rows, rows, columns) with two equal strides, and element (x, y, j) is row x + y: with the group's first row
as x, y counts rows within the group, and y < 0 is outside. Slices end where the group ends, and the first may begin above
it; zeros in both factors add nothing, whatever the group before holds, and no mask is computed.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.triton import lib


@wt.jit
def grouped_matmul_backward_descriptors(
    a, grad, ends_ptr, result, rows, n, k, groups, programs,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Descriptors of a: (rows, rows, k) and grad: (rows, rows, n) as above; result: (groups, k, n), in boxes of half a tile.

    Grid: ``programs``, of which each takes every programs-th tile, whatever group it is in.
    """
    half: tl.constexpr = BLOCK_N // 2
    tiles_m, tiles_n = tl.cdiv(k, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), groups * tiles_m * tiles_n, programs):
        group = tile // (tiles_m * tiles_n)
        tile_m, tile_n = lib.tile_index(tile % (tiles_m * tiles_n), tiles_m, tiles_n, GROUP)
        line, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        start = tl.maximum(tl.load(ends_ptr + group - 1, mask=group > 0, other=0), 0)
        end = tl.minimum(tl.load(ends_ptr + group), rows)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        slices = tl.cdiv(tl.maximum(end - start, 0), BLOCK_K)
        for row in range(end - start - slices * BLOCK_K, end - start, BLOCK_K):
            a_slice = a.load([start, row, line]).reshape(BLOCK_K, BLOCK_M).T
            sums = tl.dot(a_slice, grad.load([start, row, column]).reshape(BLOCK_K, BLOCK_N), sums)
        halves = tl.permute(tl.reshape(sums, (BLOCK_M, 2, half)), (0, 2, 1))
        left, right = tl.split(halves)
        result.store([group, line, column], left.to(result.dtype).reshape(1, BLOCK_M, half))
        result.store([group, line, column + half], right.to(result.dtype).reshape(1, BLOCK_M, half))
