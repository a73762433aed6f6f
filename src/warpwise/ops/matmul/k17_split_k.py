"""Few tiles: K is divided among programs, whose partial sums a second launch adds in order; in Triton, any strides.

A tile's program walks along the whole of K alone, and where C has fewer tiles than the GPU has SMs most of it is idle.
Divided in parts, K keeps PARTS times as many programs busy, for PARTS float32 copies of C that are written and read.
"""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def matmul_split_k(
    a_ptr, b_ptr, c_ptr, m, n, k, a_row, a_column, b_row, b_column, parts,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """a: (m, k), b: (k, n), their strides in elements; c: (parts, m, n), row-major. Grid: tiles * parts programs.

    A part is a run of slices of BLOCK_K; parts differ by one slice at most.
    """
    program = tl.program_id(0)
    tiles_m = tl.cdiv(m, BLOCK_M)
    part, tile = (program % parts).to(tl.int64), program // parts
    tile_m, tile_n = tile % tiles_m, tile // tiles_m
    slices = tl.cdiv(k, BLOCK_K)
    first = (slices * part // parts * BLOCK_K).to(tl.int32)
    end = tl.minimum(k, (slices * (part + 1) // parts * BLOCK_K).to(tl.int32))

    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    depth = first + tl.arange(0, BLOCK_K).to(tl.int64)
    a_from = a_ptr + rows[:, None] * a_row + depth[None, :] * a_column
    b_from = b_ptr + depth[:, None] * b_row + columns[None, :] * b_column
    row_inside, column_inside = rows[:, None] < m, columns[None, :] < n

    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(first, end, BLOCK_K):
        left = end - start
        a = tl.load(a_from, mask=row_inside & (tl.arange(0, BLOCK_K)[None, :] < left), other=0.0)
        b = tl.load(b_from, mask=(tl.arange(0, BLOCK_K)[:, None] < left) & column_inside, other=0.0)
        # "ieee" keeps float32 from TF32, whose 10 bits of mantissa would be another operation.
        sums = tl.dot(a, b, sums, input_precision="ieee")
        a_from += BLOCK_K * tl.cast(a_column, tl.int64)
        b_from += BLOCK_K * tl.cast(b_row, tl.int64)
    to = c_ptr + (part * m + rows[:, None]) * n + columns[None, :]
    tl.store(to, sums.to(c_ptr.dtype.element_ty), mask=row_inside & column_inside)


@wt.jit
def sum_of_parts(parts_ptr, c_ptr, count, parts, BLOCK: tl.constexpr):
    """parts: (parts, count), c: (count,). Grid: cdiv(count, BLOCK) programs."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for part in range(parts):
        sums += tl.load(parts_ptr + part * tl.cast(count, tl.int64) + at, mask=at < count, other=0.0)
    tl.store(c_ptr + at, sums.to(c_ptr.dtype.element_ty), mask=at < count)
