"""One tile of one matrix per program: tensor cores for 2-byte types, fp32 units for float32.

Operands are addressed by strides, so any layout is accepted. Programs are ordered matrix by matrix: those in flight
share few matrices, which stay in L2.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm.config import parsed
from warpwise.gemm.operands import Shape
from warpwise.operation import cdiv, sm_count
from warpwise.triton import lib

SMALL_FLOAT32, SMALL, LARGE = parsed("64x64x32_w4_s3", "64x64x64_w4_s4", "128x128x64_w8_s3")


@wt.jit
def batched_matmul_tiled(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    a_matrix,
    a_row,
    a_column,
    b_matrix,
    b_row,
    b_column,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """a: (batch, m, k), b: (batch, k, n), with strides of matrix, row and column in elements.

    c: (batch, m, n), row-major. Grid: batch * cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    matrix = tl.program_id(0) // (tiles_m * tiles_n)
    tile_m, tile_n = lib.tile_index(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, GROUP)

    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    k_offsets = tl.arange(0, BLOCK_K).to(tl.int64)
    row_mask, column_mask = rows[:, None] < m, columns[None, :] < n
    a_ptrs = a_ptr + matrix.to(tl.int64) * a_matrix + rows[:, None] * a_row + k_offsets[None, :] * a_column
    b_ptrs = b_ptr + matrix.to(tl.int64) * b_matrix + k_offsets[:, None] * b_row + columns[None, :] * b_column

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(a_ptrs, mask=row_mask & (first + k_offsets[None, :] < k), other=0.0)
        b = tl.load(b_ptrs, mask=(first + k_offsets[:, None] < k) & column_mask, other=0.0)
        # "ieee": the default for float32 is TF32, which has 10 bits of mantissa.
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        a_ptrs += BLOCK_K * tl.cast(a_column, tl.int64)
        b_ptrs += BLOCK_K * tl.cast(b_row, tl.int64)
    to = c_ptr + (matrix.to(tl.int64) * m + rows[:, None]) * n + columns[None, :]
    tl.store(to, accumulator.to(c_ptr.dtype.element_ty), mask=row_mask & column_mask)


def strides(matrices: torch.Tensor) -> tuple[int, int, int]:
    """The strides of matrices, rows and columns in elements; 0 for matrices if the operand has 2 dimensions."""
    across, along = matrices.stride()[-2:]
    return matrices.stride(0) if matrices.dim() == 3 else 0, across, along


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    batch, m, n, k = Shape.of(a, b)
    if a.dtype == torch.float32:
        tile = SMALL_FLOAT32
    else:
        tile = LARGE if batch * cdiv(m, 128) * cdiv(n, 128) >= sm_count(a) else SMALL
    grid = (batch * cdiv(m, tile.m) * cdiv(n, tile.n),)
    batched_matmul_tiled[grid](a, b, c, m, n, k, *strides(a), *strides(b), GROUP=8, **tile.triton)
