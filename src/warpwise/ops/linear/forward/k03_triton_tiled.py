"""One output tile per program with the epilogue in registers; x and W in any layout, by their strides.

The epilogue costs no pass over memory: bias and scale are one row and one column per tile, and the residual is read
once.
"""

from typing import Any

import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm.config import GemmConfig
from warpwise.operation import cdiv
from warpwise.ops.linear.forward._shared import Outputs, layer, tiled_configs
from warpwise.triton.lib import epilogue, tile_index, tile_matmul


@wt.jit
def linear_tiled(
    x_ptr,
    w_ptr,
    y_ptr,
    before_ptr,
    bias_ptr,
    residual_ptr,
    scale_ptr,
    m,
    n,
    k,
    x_row,
    x_column,
    w_row,
    w_column,
    residual_row,
    residual_column,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """x: (m, k), w: (n, k), residual: (m, n), strided; bias: (n), scale: (m), y, before: (m, n). Arguments may be None.

    Grid: cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs.
    """
    tile_m, tile_n = tile_index(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    accumulator = tile_matmul(x_ptr, w_ptr, rows, columns, m, n, k, x_row, x_column, w_column, w_row, BLOCK_K)
    before, y = epilogue(accumulator, rows, columns, m, n, bias_ptr, scale_ptr, ACTIVATION)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    if residual_ptr is not None:
        residual_ptrs = residual_ptr + rows[:, None] * residual_row + columns[None, :].to(tl.int64) * residual_column
        y += tl.load(residual_ptrs, mask=inside, other=0.0).to(tl.float32)
    offsets = rows[:, None] * n + columns[None, :]
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=inside)
    if before_ptr is not None:
        tl.store(before_ptr + offsets, before.to(before_ptr.dtype.element_ty), mask=inside)


def launch(outputs: Outputs, *args: Any, config: str | None = None) -> None:
    x, w, bias, activation, residual, scale, y, preactivation = it = layer(outputs, *args)
    m, n, k = it.sizes
    tile = GemmConfig.parse(config or tiled_configs(x, w)[0])
    linear_tiled[(cdiv(m, tile.m) * cdiv(n, tile.n),)](
        x,
        w,
        y,
        preactivation,
        bias,
        residual,
        scale,
        m,
        n,
        k,
        x.stride(0),
        x.stride(1),
        w.stride(0),
        w.stride(1),
        *it.residual_strides,
        ACTIVATION=activation,
        GROUP=8,
        **tile.triton,
    )
