"""Boxes of the batch by TMA, one persistent program per SM, and one fused loop over matrices, tiles and k-tiles.

Attention has short sums: for K = 128 a tile of 128 x 128 has two k-tiles. A pipeline that fills and drains for each
tile would mostly wait. In one loop, the k-tiles of the next tile, also of the next matrix, are loaded during the
epilogue.
"""

from typing import Any

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import Shape
from warpwise.operation import cdiv
from warpwise.ops.batched_matmul._shared import is_broadcast, one_matrix
from warpwise.triton import lib


@wt.jit
def batched_matmul_descriptors(
    a,
    b,
    c,
    batch,
    m,
    n,
    k,
    programs,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    A_SHARED: tl.constexpr,
    B_SHARED: tl.constexpr,
    A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
):
    """Descriptors of a: (batch, m, k) and b: (batch, k, n), transposed if TRANSPOSED, one matrix
    if SHARED; c: (batch, m, n), in boxes of half a tile.

    Grid: ``programs``, each of which computes every programs-th tile.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    a_matrices, b_matrices = 0 if A_SHARED else 1, 0 if B_SHARED else 1
    for tile in tl.range(tl.program_id(0), batch * tiles_m * tiles_n, programs, flatten=True):
        matrix = tile // (tiles_m * tiles_n)
        tile_m, tile_n = lib.tile_index(tile % (tiles_m * tiles_n), tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        a_matrix, b_matrix = matrix * a_matrices, matrix * b_matrices
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            if A_TRANSPOSED:
                a_tile = a.load([a_matrix, first, row]).reshape(BLOCK_K, BLOCK_M).T
            else:
                a_tile = a.load([a_matrix, row, first]).reshape(BLOCK_M, BLOCK_K)
            if B_TRANSPOSED:
                b_tile = b.load([b_matrix, column, first]).reshape(BLOCK_N, BLOCK_K).T
            else:
                b_tile = b.load([b_matrix, first, column]).reshape(BLOCK_K, BLOCK_N)
            accumulator = tl.dot(a_tile, b_tile, accumulator)
        halves = tl.permute(tl.reshape(accumulator, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        half: tl.constexpr = BLOCK_N // 2
        c.store([matrix, row, column], left.to(c.dtype).reshape(1, BLOCK_M, half))
        c.store([matrix, row, column + half], right.to(c.dtype).reshape(1, BLOCK_M, half))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or boxes.configs(a, b)[0])
    batch, m, n, k = Shape.of(a, b)

    def descriptor(operand: torch.Tensor, rows: int, columns: int) -> Any:
        return boxes.descriptor(one_matrix(operand), (rows, columns))

    programs = boxes.programs(tile, batch * cdiv(m, tile.m) * cdiv(n, tile.n), a)
    layout = {"A_TRANSPOSED": boxes.transposed(a), "B_TRANSPOSED": boxes.transposed(b)}
    shared = {"A_SHARED": is_broadcast(a), "B_SHARED": is_broadcast(b)}
    maps = descriptor(a, tile.m, tile.k), descriptor(b, tile.k, tile.n), wt.out(descriptor(c, tile.m, tile.n // 2))
    batched_matmul_descriptors[(programs,)](*maps, batch, m, n, k, programs, GROUP=8, **shared, **layout, **tile.triton)
