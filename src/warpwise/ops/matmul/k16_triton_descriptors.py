"""Persistent programs in Triton: boxes by TMA, one program per SM, and prefetching across tiles.

TMA loads and stores whole boxes by descriptors, so no thread computes addresses or masks; elements past an edge are
read as zero and not written. ``flatten`` fuses the loops over tiles and k-tiles: the pipeline does not drain between
tiles, and k-tiles of the next tile are loaded during the epilogue of this one.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv
from warpwise.triton import lib


@wt.jit
def matmul_descriptors(
    a,
    b,
    c,
    m,
    n,
    k,
    programs,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
):
    """Descriptors of a: (m, k), or transposed (k, m); b: (k, n), or transposed (n, k); c: (m, n), in boxes of half
    a tile.

    Grid: ``programs``, each of which computes every programs-th tile.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, programs, flatten=True):
        tile_m, tile_n = lib.tile_index(tile, tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            a_tile = a.load([first, row]).T if A_TRANSPOSED else a.load([row, first])
            b_tile = b.load([column, first]).T if B_TRANSPOSED else b.load([first, column])
            accumulator = tl.dot(a_tile, b_tile, accumulator)
        # Staging half a tile at a time saves the shared memory of one pipeline stage.
        halves = tl.permute(tl.reshape(accumulator, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        c.store([row, column], left.to(c.dtype))
        c.store([row, column + BLOCK_N // 2], right.to(c.dtype))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or boxes.configs(a, b)[0])
    m, n, k = sizes(a, b)
    programs = boxes.programs(tile, cdiv(m, tile.m) * cdiv(n, tile.n), a)
    read_a, read_b = boxes.descriptor(a, (tile.m, tile.k)), boxes.descriptor(b, (tile.k, tile.n))
    layout = {"A_TRANSPOSED": boxes.transposed(a), "B_TRANSPOSED": boxes.transposed(b)}
    to = wt.out(boxes.descriptor(c, (tile.m, tile.n // 2)))
    matmul_descriptors[(programs,)](read_a, read_b, to, m, n, k, programs, GROUP=8, **layout, **tile.triton)
