"""A block of windows per program in Triton: the loops over a window, of constant size, are unrolled by the compiler.

k04 has the sizes of its windows as template arguments and lists those that are compiled; Triton compiles a kernel for
each size that occurs.
"""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def max_pool2d(
    x_ptr,
    y_ptr,
    indices_ptr,
    total,
    h,
    w,
    oh,
    ow,
    KH: tl.constexpr,
    KW: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    PAD_H: tl.constexpr,
    PAD_W: tl.constexpr,
    RELU: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """x: (planes, h, w); y, indices: (planes, oh, ow), `total` windows. Grid: cdiv(total, BLOCK) programs.

    indices: row * w + column of the first maximum; NaN is the largest. With RELU a maximum up to 0 is 0, its index -1.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    top, left = i // ow % oh * STRIDE_H - PAD_H, i % ow * STRIDE_W - PAD_W
    plane = x_ptr + (i // ow // oh).to(tl.int64) * h * w
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    chosen = tl.full((BLOCK,), -1, tl.int32)
    for r in tl.static_range(KH):
        for c in tl.static_range(KW):
            row, column = top + r, left + c
            inside = (i < total) & (row >= 0) & (row < h) & (column >= 0) & (column < w)
            at = row * w + column
            x = tl.load(plane + at, mask=inside, other=0.0).to(tl.float32)
            better = inside & ((chosen < 0) | ((best == best) & ~(x <= best)))  # noqa: PLR0124 - NaN is the largest
            best, chosen = tl.where(better, x, best), tl.where(better, at, chosen)
    if RELU:
        best, chosen = tl.where(best <= 0, 0.0, best), tl.where(best <= 0, -1, chosen)
    tl.store(y_ptr + i, best.to(y_ptr.dtype.element_ty), mask=i < total)
    tl.store(indices_ptr + i, chosen, mask=i < total)
