"""float32 by the tensor cores: each factor as three bfloat16 parts, six products of parts for one of factors.

A float32 has 24 bits of mantissa and a bfloat16 has 8 and the same exponents, so x = high + middle + low exactly, each
part the leading bits of what is left (cut, not rounded: rounding could reach infinity). Of the nine products of parts,
low * low, middle * low and low * middle lie below 2^-24 of the result and are left out. The tensor cores' own sums lose
bits as they grow, so that a slice is summed there, smallest products first, and slices are added as float32.

An infinity has no parts: infinity * 0 makes its row or column NaN.
"""

import triton.language as tl

from warpwise import triton as wt
from warpwise.triton.lib import tile_index


@wt.jit
def _leading(x):
    """The 8 leading bits of x's mantissa, as a float32."""
    return (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)


@wt.jit
def _parts(x):
    high = _leading(x)
    middle = _leading(x - high)
    low = x - high - middle
    return high.to(tl.bfloat16), middle.to(tl.bfloat16), low.to(tl.bfloat16)


@wt.jit
def matmul_split_bfloat16(
    a_ptr, b_ptr, c_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """a: (m, k), b: (k, n), c: (m, n), float32, row-major. Grid: cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) programs."""
    tile_m, tile_n = tile_index(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)

    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_from = a_ptr + rows[:, None] * k + depth[None, :]
    b_from = b_ptr + depth[:, None].to(tl.int64) * n + columns[None, :]
    row_inside, column_inside = rows[:, None] < m, columns[None, :] < n

    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(a_from, mask=row_inside & (first + depth[None, :] < k), other=0.0)
        b = tl.load(b_from, mask=(first + depth[:, None] < k) & column_inside, other=0.0)
        a_high, a_middle, a_low = _parts(a)
        b_high, b_middle, b_low = _parts(b)
        products = tl.dot(a_low, b_high)
        products = tl.dot(a_high, b_low, products)
        products = tl.dot(a_middle, b_middle, products)
        products = tl.dot(a_middle, b_high, products)
        products = tl.dot(a_high, b_middle, products)
        products = tl.dot(a_high, b_high, products)
        sums += products
        a_from += BLOCK_K
        b_from += BLOCK_K * tl.cast(n, tl.int64)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], sums, mask=row_inside & column_inside)
