"""Boxes by TMA, one persistent program per SM, and one fused loop over groups, tiles and k-tiles.

A box of A may extend into the rows of the next group; the accumulators of these rows are not stored. C is stored by
masked pointers, because a box would overwrite these rows. Triton could not fuse the loops if there were a branch
between boxes for whole tiles and masks for the last tile of a group.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.triton_groups import at, heights
from warpwise.operation import cdiv
from warpwise.ops.grouped_matmul.forward._triton import descriptors_configs, padded_groups
from warpwise.triton import lib


@wt.jit
def grouped_matmul_descriptors(
    a,
    b,
    ends_ptr,
    c_ptr,
    rows,
    n_units,
    k,
    groups,
    programs,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
):
    """Descriptors of a: (rows, k) and b: (groups, k, n), or transposed (groups, n, k); c: (rows, n), row-major.

    n is 8 ``n_units``: rows of c begin on 16 bytes, so stores are vectors. Grid: ``programs``, each of which computes
    every programs-th tile, of any group.
    """
    n = n_units * 8
    tiles_n = tl.cdiv(n, BLOCK_N)
    index = tl.arange(0, GROUPS)
    starts, ends, tiles, before = heights(ends_ptr, groups, rows, BLOCK_M, GROUPS)
    past, group_tiles = at(index == groups, starts), at(index == groups, before) * tiles_n
    for tile in range(tl.program_id(0), at(index == groups, tiles) * tiles_n, programs):
        to, inside = tile_of(
            c_ptr, past + tile // tiles_n * BLOCK_M, tile % tiles_n * BLOCK_N, rows, n, BLOCK_M, BLOCK_N
        )
        tl.store(to, tl.zeros((BLOCK_M, BLOCK_N), c_ptr.dtype.element_ty), mask=inside)

    for tile in tl.range(tl.program_id(0), group_tiles, programs, flatten=True):
        is_own = (before * tiles_n <= tile) & (tile < (before + tiles) * tiles_n)
        group, start, end, high = at(is_own, index), at(is_own, starts), at(is_own, ends), at(is_own, tiles)
        tile_m, tile_n = lib.tile_index(tile - at(is_own, before) * tiles_n, high, tiles_n, GROUP)
        row, column = start + tile_m * BLOCK_M, tile_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            if B_TRANSPOSED:
                b_tile = b.load([group, column, first]).reshape(BLOCK_N, BLOCK_K).T
            else:
                b_tile = b.load([group, first, column]).reshape(BLOCK_K, BLOCK_N)
            accumulator = tl.dot(a.load([row, first]), b_tile, accumulator)
        to, inside = tile_of(c_ptr, row, column, end, n, BLOCK_M, BLOCK_N)
        tl.store(to, accumulator.to(c_ptr.dtype.element_ty), mask=inside)


@wt.jit
def tile_of(c_ptr, row, column, end, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Return pointers to a tile of C, and the mask of rows below ``end`` and columns below n."""
    lines, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
    to = c_ptr + lines[:, None].to(tl.int64) * n + columns[None, :]
    return to, (lines[:, None] < end) & (columns[None, :] < n)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or descriptors_configs(a, b, offsets)[0])
    (rows, k), (groups, _, n) = a.shape, b.shape
    programs = boxes.programs(tile, (cdiv(rows, tile.m) + groups) * cdiv(n, tile.n), a)
    grouped_matmul_descriptors[(programs,)](
        *(
            boxes.descriptor(a, (tile.m, tile.k)),
            boxes.descriptor(b, (tile.k, tile.n)),
            offsets.contiguous(),
            wt.out(c),
        ),
        *(rows, n // 8, k, groups, programs),
        GROUP=8,
        GROUPS=padded_groups(groups),
        B_TRANSPOSED=boxes.transposed(b),
        **tile.triton,
    )
