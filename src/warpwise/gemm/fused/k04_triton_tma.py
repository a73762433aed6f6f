"""Persistent programs, one per SM: TMA loads the operands and the source, and stores finished halves of a tile.

One thread issues a TMA load, whose data passes through no register; the store of a tile overlaps with the main loop of
the next one. A tile is stored in halves, so that its staging takes half the memory and the pipeline has one more stage;
the source takes half a tile beside it. A broadcast source is read by its strides.
"""

from typing import Any

import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.operation import cdiv, sm_count
from warpwise.triton.lib import epilogue, tile_index


@wt.jit
def gemm_tma(
    a,
    b,
    result,
    kept,
    source,
    source_ptr,
    bias_ptr,
    scale_ptr,
    m,
    n,
    k,
    source_row,
    source_column,
    alpha,
    beta,
    programs,
    A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Descriptors of a: (m, k), or transposed (k, m); b: (k, n), or transposed (n, k); result, kept, source: (m, n), in
    boxes of half a tile. bias: (n), scale: (m). A broadcast source is given as source_ptr. Arguments may be None.

    Grid: ``programs``, each of which computes every programs-th tile.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, programs, flatten=True):
        tile_m, tile_n = tile_index(tile, tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            a_tile = a.load([first, row]).T if A_TRANSPOSED else a.load([row, first])
            b_tile = b.load([column, first]).T if B_TRANSPOSED else b.load([first, column])
            sums = tl.dot(a_tile, b_tile, sums)
        left, right = tl.split(tl.permute(tl.reshape(sums, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
        _finish(
            left, row, column, result, kept, source, source_ptr, bias_ptr, scale_ptr, m, n, source_row, source_column,
            alpha, beta, ACTIVATION,
        )  # fmt: skip
        _finish(
            right, row, column + BLOCK_N // 2, result, kept, source, source_ptr, bias_ptr, scale_ptr, m, n, source_row,
            source_column, alpha, beta, ACTIVATION,
        )  # fmt: skip


@wt.jit
def _finish(
    sums, row, column, result, kept, source, source_ptr, bias_ptr, scale_ptr, m, n, source_row, source_column, alpha,
    beta, ACTIVATION: tl.constexpr,
):  # fmt: skip
    rows, columns = row + tl.arange(0, sums.shape[0]), column + tl.arange(0, sums.shape[1])
    if alpha is not None:
        sums *= alpha
    before, after = epilogue(sums, rows, columns, m, n, bias_ptr, scale_ptr, ACTIVATION)
    if source is not None:
        added = source.load([row, column]).to(tl.float32)
        after += added if beta is None else beta * added
    if source_ptr is not None:
        source_ptrs = (
            source_ptr + rows[:, None].to(tl.int64) * source_row + columns[None, :].to(tl.int64) * source_column
        )
        added = tl.load(source_ptrs, mask=(rows[:, None] < m) & (columns[None, :] < n), other=0.0).to(tl.float32)
        after += added if beta is None else beta * added
    result.store([row, column], after.to(result.dtype))
    if kept is not None:
        kept.store([row, column], before.to(kept.dtype))


def launch(problem: Any, config: str | None = None) -> None:
    a, b, result, kept, bias, scale, activation, source, alpha, beta = problem
    m, n, k = problem.sizes
    by_tma = source is not None and boxes.row_major_by_tma(source)
    tile = GemmConfig.parse(config or boxes.configs(1, m, n, k, sm_count(a), int(by_tma))[0])
    programs = boxes.programs(tile, cdiv(m, tile.m) * cdiv(n, tile.n), a)
    half = (tile.m, tile.n // 2)
    gemm_tma[(programs,)](
        *(boxes.descriptor(a, (tile.m, tile.k)), boxes.descriptor(b, (tile.k, tile.n))),
        wt.out(boxes.descriptor(result, half)),
        None if kept is None else wt.out(boxes.descriptor(kept, half)),
        boxes.descriptor(source, half) if by_tma else None,
        None if by_tma else source,
        *(bias, scale, m, n, k, *problem.source_strides, alpha, beta, programs),
        A_TRANSPOSED=boxes.transposed(a),
        B_TRANSPOSED=boxes.transposed(b),
        ACTIVATION=activation,
        GROUP=8,
        **tile.triton,
    )
