"""A block of windows per program in Triton: the loops over a window, of constant size, are unrolled by the compiler.

k04 has the sizes of its windows as template arguments and lists those that are compiled; Triton compiles a kernel for
each size that occurs.
"""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def pixels_of_window(first, size, extent, padding, PADDING_COUNTS: tl.constexpr):
    """Pixels along one axis that a window from `first` on counts: up to the end of the padding, or inside the image."""
    if PADDING_COUNTS:
        return tl.minimum(first + size, extent + padding) - first
    else:
        return tl.minimum(first + size, extent) - tl.maximum(first, 0)


@wt.jit
def avg_pool2d(
    x_ptr,
    y_ptr,
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
    PADDING_COUNTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """x: (planes, h, w); y: (planes, oh, ow), `total` windows. Grid: cdiv(total, BLOCK) programs."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    top, left = i // ow % oh * STRIDE_H - PAD_H, i % ow * STRIDE_W - PAD_W
    plane = x_ptr + (i // ow // oh).to(tl.int64) * h * w
    sums = tl.zeros((BLOCK,), tl.float32)
    for r in tl.static_range(KH):
        for c in tl.static_range(KW):
            row, column = top + r, left + c
            inside = (i < total) & (row >= 0) & (row < h) & (column >= 0) & (column < w)
            sums += tl.load(plane + row * w + column, mask=inside, other=0.0).to(tl.float32)
    rows = pixels_of_window(top, KH, h, PAD_H, PADDING_COUNTS)
    columns = pixels_of_window(left, KW, w, PAD_W, PADDING_COUNTS)
    tl.store(y_ptr + i, (sums / (rows * columns)).to(y_ptr.dtype.element_ty), mask=i < total)
