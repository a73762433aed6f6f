"""bf16x3: float32 on the tensor cores by splitting each operand into three bfloat16 terms; six of nine products.

A float32 has 24 bits of mantissa; a bfloat16 has 8 and the same exponent range. So x = high + middle + low exactly,
each term the leading bits of the remainder (truncated: rounding could overflow to infinity). Of the nine products,
low * low, middle * low and low * middle are below 2^-24 of the result and are omitted. The accumulation of the tensor
cores loses bits as the sum grows, so each k-tile is accumulated separately, smallest products first, and added to
float32 sums.

Infinities cannot be split: infinity * 0 makes their row or column NaN.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv
from warpwise.ops.matmul._triton import bf16x3_configs
from warpwise.triton.lib import tile_index


@wt.jit
def _truncate(x):
    """x truncated to bfloat16's 8 bits of mantissa, as float32."""
    return (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)


@wt.jit
def _split(x):
    high = _truncate(x)
    middle = _truncate(x - high)
    low = x - high - middle
    return high.to(tl.bfloat16), middle.to(tl.bfloat16), low.to(tl.bfloat16)


@wt.jit
def matmul_bf16x3(
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

    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(a_ptrs, mask=row_mask & (first + k_offsets[None, :] < k), other=0.0)
        b = tl.load(b_ptrs, mask=(first + k_offsets[:, None] < k) & column_mask, other=0.0)
        a_high, a_middle, a_low = _split(a)
        b_high, b_middle, b_low = _split(b)
        partial = tl.dot(a_low, b_high)
        partial = tl.dot(a_high, b_low, partial)
        partial = tl.dot(a_middle, b_middle, partial)
        partial = tl.dot(a_middle, b_high, partial)
        partial = tl.dot(a_high, b_middle, partial)
        partial = tl.dot(a_high, b_high, partial)
        sums += partial
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * tl.cast(n, tl.int64)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], sums, mask=row_mask & column_mask)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or bf16x3_configs(a, b)[0])
    m, n, k = sizes(a, b)
    matmul_bf16x3[(cdiv(m, tile.m) * cdiv(n, tile.n),)](a, b, c, m, n, k, GROUP=8, **tile.triton)
