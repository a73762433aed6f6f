"""One tile of C per program, in Triton: tensor cores for 2-byte types, fp32 units at full precision for float32.

Programs are in grouped raster order: groups of GROUP rows of tiles, column by column within a group. The tiles in
flight share GROUP tile rows of A and few tile columns of B, which stay in L2. In row-major order each wave would read
all of B.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm.config import parsed
from warpwise.gemm.limits import shared_bytes
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count
from warpwise.triton.lib import tile_index

FLOAT32, SMALL, LARGE = parsed("64x64x32_w4_s3", "64x64x64_w4_s4", "128x256x64_w8_s3")


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
    """a: (m, k), b: (k, n), c: (m, n), row-major. Grid: cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs."""
    tile_m, tile_n = tile_index(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)

    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k_offsets = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * k + k_offsets[None, :]
    b_ptrs = b_ptr + k_offsets[:, None].to(tl.int64) * n + columns[None, :]
    row_mask, column_mask = rows[:, None] < m, columns[None, :] < n

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(a_ptrs, mask=row_mask & (first + k_offsets[None, :] < k), other=0.0)
        b = tl.load(b_ptrs, mask=(first + k_offsets[:, None] < k) & column_mask, other=0.0)
        # "ieee": the default for float32 is TF32, which has 10 bits of mantissa.
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * tl.cast(n, tl.int64)
    tl.store(
        c_ptr + rows[:, None] * n + columns[None, :],
        accumulator.to(c_ptr.dtype.element_ty),
        mask=row_mask & column_mask,
    )


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    tile = SMALL if a.dtype != torch.float32 else FLOAT32
    if a.dtype != torch.float32 and cdiv(m, LARGE.m) * cdiv(n, LARGE.n) >= sm_count(a):
        tile = LARGE if shared_bytes(a) >= LARGE.ring_bytes(2, 0, 0) else SMALL
    matmul_tiled[(cdiv(m, tile.m) * cdiv(n, tile.n),)](a, b, c, m, n, k, GROUP=8, **tile.triton)
