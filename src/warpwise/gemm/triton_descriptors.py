"""GEMM in Triton by tensor descriptors: TMA loads and stores boxes; persistent programs, prefetching across tiles.

No thread computes addresses or masks; elements past an edge are read as zero and not written. ``flatten`` fuses the
loops over matrices, tiles and k-tiles: the pipeline does not drain between tiles, and k-tiles of the next tile, also of
the next matrix, are loaded during the epilogue of this one.
"""

from collections.abc import Callable

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import Shape
from warpwise.operation import cdiv
from warpwise.triton import lib


@wt.jit
def gemm_descriptors(
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
    BATCHED: tl.constexpr,
    A_SHARED: tl.constexpr,
    B_SHARED: tl.constexpr,
    A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
):
    """Descriptors of a: (m, k) and b: (k, n), transposed if TRANSPOSED; c: (m, n), in boxes of half a tile. If BATCHED,
    of batches of these, or of one matrix if SHARED.

    Grid: ``programs``, each of which computes every programs-th tile.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    half: tl.constexpr = BLOCK_N // 2
    for tile in tl.range(tl.program_id(0), batch * tiles_m * tiles_n, programs, flatten=True):
        matrix = tile // (tiles_m * tiles_n) if BATCHED else 0
        tile_m, tile_n = lib.tile_index(tile % (tiles_m * tiles_n) if BATCHED else tile, tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            a_tile = load(a, 0 if A_SHARED else matrix, row, first, BLOCK_M, BLOCK_K, BATCHED, A_TRANSPOSED)
            b_tile = load(b, 0 if B_SHARED else matrix, first, column, BLOCK_K, BLOCK_N, BATCHED, B_TRANSPOSED)
            accumulator = tl.dot(a_tile, b_tile, accumulator)
        # Staging half a tile at a time saves the shared memory of one pipeline stage.
        left, right = tl.split(tl.permute(tl.reshape(accumulator, (BLOCK_M, 2, half)), (0, 2, 1)))
        if BATCHED:
            c.store([matrix, row, column], left.to(c.dtype).reshape(1, BLOCK_M, half))
            c.store([matrix, row, column + half], right.to(c.dtype).reshape(1, BLOCK_M, half))
        else:
            c.store([row, column], left.to(c.dtype))
            c.store([row, column + half], right.to(c.dtype))


@wt.jit
def load(
    matrices, matrix, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BATCHED: tl.constexpr,
    TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """The box of ROWS x COLUMNS at (row, column)."""
    if BATCHED:
        if TRANSPOSED:
            return matrices.load([matrix, column, row]).reshape(COLUMNS, ROWS).T
        else:
            return matrices.load([matrix, row, column]).reshape(ROWS, COLUMNS)
    elif TRANSPOSED:
        return matrices.load([column, row]).T
    else:
        return matrices.load([row, column])


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    """c = a b for matrices or for batches, of which an operand may be one matrix for the whole batch."""
    tile = GemmConfig.parse(config or boxes.configs(a, b)[0])
    batch, m, n, k = Shape.of(a, b)
    batched = c.dim() == 3
    lines: Callable[[torch.Tensor], torch.Tensor] = boxes.one_matrix if batched else lambda matrix: matrix
    programs = boxes.programs(tile, batch * cdiv(m, tile.m) * cdiv(n, tile.n), a)
    gemm_descriptors[(programs,)](
        boxes.descriptor(lines(a), (tile.m, tile.k)),
        boxes.descriptor(lines(b), (tile.k, tile.n)),
        wt.out(boxes.descriptor(c, (tile.m, tile.n // 2))),
        *(batch, m, n, k, programs),
        GROUP=8,
        BATCHED=batched,
        A_SHARED=boxes.is_broadcast(a),
        B_SHARED=boxes.is_broadcast(b),
        A_TRANSPOSED=boxes.transposed(a),
        B_TRANSPOSED=boxes.transposed(b),
        **tile.triton,
    )
