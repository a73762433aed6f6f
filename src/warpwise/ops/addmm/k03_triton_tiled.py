"""One tile per program, scaled and added to in the registers of its accumulator; any strides."""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv
from warpwise.ops.addmm._shared import broadcast, tiled_configs
from warpwise.triton.lib import tile_index, tile_matmul


@wt.jit
def addmm_tiled(
    a_ptr,
    b_ptr,
    c_ptr,
    result_ptr,
    m,
    n,
    k,
    alpha,
    beta,
    a_row,
    a_column,
    b_row,
    b_column,
    c_row,
    c_column,
    ADDS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """a: (m, k), b: (k, n), c: (m, n), strided, c read if ADDS; result: (m, n).

    Grid: cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs.
    """
    tile_m, tile_n = tile_index(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    accumulator = alpha * tile_matmul(a_ptr, b_ptr, rows, columns, m, n, k, a_row, a_column, b_row, b_column, BLOCK_K)
    rows, columns = rows[:, None], columns.to(tl.int64)[None, :]
    inside = (rows < m) & (columns < n)
    if ADDS:
        accumulator += beta * tl.load(c_ptr + rows * c_row + columns * c_column, mask=inside, other=0.0).to(tl.float32)
    tl.store(result_ptr + rows * n + columns, accumulator.to(result_ptr.dtype.element_ty), mask=inside)


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
    tile = GemmConfig.parse(config or tiled_configs(input, a, b)[0])
    addmm_tiled[(cdiv(m, tile.m) * cdiv(n, tile.n),)](
        a,
        b,
        input,
        result,
        m,
        n,
        k,
        alpha,
        beta,
        *a.stride(),
        *b.stride(),
        *broadcast(input, result)[1:],
        ADDS=beta != 0,
        GROUP=8,
        **tile.triton,
    )
