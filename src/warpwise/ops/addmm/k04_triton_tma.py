"""Persistent programs, one per SM: TMA loads the operands and the matrix to add, and stores the result.

The matrix to add takes half a tile of shared memory beside the staging of the result, which is the memory of one
pipeline stage. A broadcast c (row, column or scalar) is read by its strides.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv
from warpwise.ops.addmm._shared import broadcast, tma_addressable, tma_configs
from warpwise.triton.lib import tile_index


@wt.jit
def addmm_tma(
    a,
    b,
    c,
    c_ptr,
    result,
    m,
    n,
    k,
    alpha,
    beta,
    c_row,
    c_column,
    programs,
    A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Descriptors of a: (m, k), or transposed (k, m); b: (k, n), or transposed (n, k); result, c: (m, n), in boxes of
    half a tile. A broadcast c is given as c_ptr with its strides; if both are None nothing is added.

    Grid: ``programs``, each of which computes every programs-th tile.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, programs, flatten=True):
        tile_m, tile_n = tile_index(tile, tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            a_tile = a.load([first, row]).T if A_TRANSPOSED else a.load([row, first])
            b_tile = b.load([column, first]).T if B_TRANSPOSED else b.load([first, column])
            accumulator = tl.dot(a_tile, b_tile, accumulator)
        left, right = tl.split(tl.permute(tl.reshape(accumulator, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
        _epilogue(left, row, column, c, c_ptr, result, m, n, alpha, beta, c_row, c_column)
        _epilogue(right, row, column + BLOCK_N // 2, c, c_ptr, result, m, n, alpha, beta, c_row, c_column)


@wt.jit
def _epilogue(accumulator, row, column, c, c_ptr, result, m, n, alpha, beta, c_row, c_column):
    accumulator *= alpha
    if c is not None:
        accumulator += beta * c.load([row, column]).to(tl.float32)
    if c_ptr is not None:
        rows = (row + tl.arange(0, accumulator.shape[0])).to(tl.int64)[:, None]
        columns = (column + tl.arange(0, accumulator.shape[1])).to(tl.int64)[None, :]
        inside = (rows < m) & (columns < n)
        accumulator += beta * tl.load(c_ptr + rows * c_row + columns * c_column, mask=inside, other=0.0).to(tl.float32)
    result.store([row, column], accumulator.to(result.dtype))


def launch(
    result: torch.Tensor,
    input: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    beta: float,
    alpha: float,
    config: str | None = None,
) -> None:
    m, n, k = sizes(a, b)
    tile = GemmConfig.parse(config or tma_configs(input, a, b)[0])
    programs = boxes.programs(tile, cdiv(m, tile.m) * cdiv(n, tile.n), a)
    half = (tile.m, tile.n // 2)
    whole = beta != 0 and input.shape == result.shape and tma_addressable(input)
    addmm_tma[(programs,)](
        boxes.descriptor(a, (tile.m, tile.k)),
        boxes.descriptor(b, (tile.k, tile.n)),
        boxes.descriptor(input, half) if whole else None,
        input if beta != 0 and not whole else None,
        wt.out(boxes.descriptor(result, half)),
        m,
        n,
        k,
        alpha,
        beta,
        *broadcast(input, result)[1:],
        programs,
        A_TRANSPOSED=boxes.transposed(a),
        B_TRANSPOSED=boxes.transposed(b),
        GROUP=8,
        **tile.triton,
    )
