"""One output tile per program with the epilogue in registers; both operands in any layout, by their strides.

The epilogue costs no pass over memory: bias and scale are one row and one column per tile, and the source is read once.
"""

from typing import Any

import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.fused.k02_triton_pass import finish
from warpwise.operation import cdiv
from warpwise.triton.lib import tile_index, tile_matmul


@wt.jit
def gemm_tiled(
    a_ptr,
    b_ptr,
    result_ptr,
    kept_ptr,
    bias_ptr,
    scale_ptr,
    source_ptr,
    m,
    n,
    k,
    a_row,
    a_column,
    b_row,
    b_column,
    source_row,
    source_column,
    alpha,
    beta,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """a: (m, k), b: (k, n), strided; the others as in `finish`. Grid: cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs."""
    tile_m, tile_n = tile_index(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    sums = tile_matmul(a_ptr, b_ptr, rows, columns, m, n, k, a_row, a_column, b_row, b_column, BLOCK_K)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    offsets = rows[:, None] * n + columns[None, :]
    finish(
        sums, rows, columns, inside, offsets, result_ptr, kept_ptr, bias_ptr, scale_ptr, source_ptr, m, n, source_row,
        source_column, alpha, beta, ACTIVATION,
    )  # fmt: skip


def launch(problem: Any, config: str | None = None) -> None:
    a, b, result, kept, bias, scale, activation, source, alpha, beta = problem
    m, n, k = problem.sizes
    tile = GemmConfig.parse(config or boxes.pointer_configs(a, m, n, k)[0])
    gemm_tiled[(cdiv(m, tile.m) * cdiv(n, tile.n),)](
        *(a, b, result, kept, bias, scale, source, m, n, k, *a.stride(), *b.stride(), *problem.source_strides),
        *(alpha, beta),
        ACTIVATION=activation,
        GROUP=8,
        **tile.triton,
    )
