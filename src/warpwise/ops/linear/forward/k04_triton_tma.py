"""Persistent programs, one per SM: TMA loads boxes of the operands and stores finished halves of a tile.

One thread issues a TMA load, whose data passes through no register; the store of a tile overlaps with the main loop
of the next one. A tile is stored in halves, so that its staging takes half the memory and the pipeline has one more
stage.
"""

from typing import Any

import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.operation import cdiv
from warpwise.ops.linear.forward._shared import Outputs, layer, tma_configs
from warpwise.triton.lib import epilogue, tile_index


@wt.jit
def linear_tma(
    x,
    w,
    y,
    before,
    residual,
    bias_ptr,
    scale_ptr,
    m,
    n,
    k,
    programs,
    X_TRANSPOSED: tl.constexpr,
    W_TRANSPOSED: tl.constexpr,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Descriptors of x: (m, k), or transposed (k, m); w: (n, k), or transposed (k, n); y, before, residual: (m, n), in
    boxes of half a tile; bias: (n), scale: (m). Arguments may be None.

    Grid: ``programs``, each of which computes every programs-th tile.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, programs, flatten=True):
        tile_m, tile_n = tile_index(tile, tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            x_tile = x.load([first, row]).T if X_TRANSPOSED else x.load([row, first])
            w_tile = w.load([first, column]) if W_TRANSPOSED else w.load([column, first]).T
            accumulator = tl.dot(x_tile, w_tile, accumulator)
        left, right = tl.split(tl.permute(tl.reshape(accumulator, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
        _epilogue(left, row, column, y, before, residual, bias_ptr, scale_ptr, m, n, ACTIVATION)
        _epilogue(right, row, column + BLOCK_N // 2, y, before, residual, bias_ptr, scale_ptr, m, n, ACTIVATION)


@wt.jit
def _epilogue(accumulator, row, column, y, before, residual, bias_ptr, scale_ptr, m, n, ACTIVATION: tl.constexpr):
    rows, columns = row + tl.arange(0, accumulator.shape[0]), column + tl.arange(0, accumulator.shape[1])
    h, result = epilogue(accumulator, rows, columns, m, n, bias_ptr, scale_ptr, ACTIVATION)
    if residual is not None:
        result += residual.load([row, column]).to(tl.float32)
    y.store([row, column], result.to(y.dtype))
    if before is not None:
        before.store([row, column], h.to(before.dtype))


def launch(outputs: Outputs, *args: Any, config: str | None = None) -> None:
    x, w, bias, activation, residual, scale, y, preactivation = it = layer(outputs, *args)
    m, n, k = it.sizes
    tile = GemmConfig.parse(config or tma_configs(*args)[0])
    programs = boxes.programs(tile, cdiv(m, tile.m) * cdiv(n, tile.n), x)
    half = (tile.m, tile.n // 2)
    linear_tma[(programs,)](
        boxes.descriptor(x, (tile.m, tile.k)),
        boxes.descriptor(w, (tile.n, tile.k)),
        wt.out(boxes.descriptor(y, half)),
        None if preactivation is None else wt.out(boxes.descriptor(preactivation, half)),
        None if residual is None else boxes.descriptor(residual, half),
        bias,
        scale,
        m,
        n,
        k,
        programs,
        X_TRANSPOSED=boxes.transposed(x),
        W_TRANSPOSED=boxes.transposed(w),
        ACTIVATION=activation,
        GROUP=8,
        **tile.triton,
    )
