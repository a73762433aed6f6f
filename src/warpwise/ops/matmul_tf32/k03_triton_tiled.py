"""Tiles in Triton with TF32 tl.dot; C's tile is computed transposed, so that no operand is transposed in memory.

wgmma reads 4-byte operands from shared memory K-major only; its A operand may come from registers in any layout. In
C^T = B^T A^T, A is K-major and B^T passes through registers. For A B the compiler transposes each k-tile of B in
shared memory and takes almost twice as long.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm.config import parsed
from warpwise.gemm.limits import shared_bytes
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count
from warpwise.triton.lib import tile_index

LARGE, SMALL = parsed("256x128x32_w8_s3", "64x64x32_w4_s4")


@wt.jit
def matmul_tiled(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """a: (m, k), b: (k, n), c: (m, n), float32, row-major. Grid: cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs."""
    tile_m, tile_n = tile_index(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)

    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k_offsets = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * k + k_offsets[None, :]
    b_ptrs = b_ptr + k_offsets[:, None].to(tl.int64) * n + columns[None, :]
    row_mask, column_mask = rows[:, None] < m, columns[None, :] < n

    accumulator = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(a_ptrs, mask=row_mask & (first + k_offsets[None, :] < k), other=0.0)
        b = tl.load(b_ptrs, mask=(first + k_offsets[:, None] < k) & column_mask, other=0.0)
        accumulator = tl.dot(tl.trans(b), tl.trans(a), accumulator, input_precision="tf32")
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * tl.cast(n, tl.int64)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], tl.trans(accumulator), mask=row_mask & column_mask)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    large = cdiv(m, LARGE.m) * cdiv(n, LARGE.n) >= sm_count(a) and shared_bytes(a) >= LARGE.ring_bytes(4, 0, 0)
    tile = LARGE if large else SMALL
    matmul_tiled[(cdiv(m, tile.m) * cdiv(n, tile.n),)](a, b, c, m, n, k, GROUP=8, **tile.triton)
