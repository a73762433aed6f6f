"""A block of pixels per program in Triton adds the windows that contain them; the loop over windows is unrolled."""

import triton.language as tl

from warpwise import triton as wt
from warpwise.ops.avg_pool2d.forward.k05_triton import pixels_of_window


@wt.jit
def avg_pool2d_backward(
    dy_ptr,
    dx_ptr,
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
    """dx: (planes, h, w), `total` pixels; dy: (planes, oh, ow). Grid: cdiv(total, BLOCK) programs.

    Up to cdiv(KH, STRIDE_H) cdiv(KW, STRIDE_W) windows contain a pixel; the last one of a column of windows is the
    one with row (row + PAD_H) / STRIDE_H.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane = (i // (h * w)).to(tl.int64) * oh * ow
    row, column = i // w % h + PAD_H, i % w + PAD_W
    sums = tl.zeros((BLOCK,), tl.float32)
    for up in tl.static_range((KH + STRIDE_H - 1) // STRIDE_H):
        for back in tl.static_range((KW + STRIDE_W - 1) // STRIDE_W):
            r, c = row // STRIDE_H - up, column // STRIDE_W - back
            contains = (r >= 0) & (r < oh) & (row < r * STRIDE_H + KH) & (c >= 0) & (c < ow)
            contains &= (column < c * STRIDE_W + KW) & (i < total)
            rows = pixels_of_window(r * STRIDE_H - PAD_H, KH, h, PAD_H, PADDING_COUNTS)
            columns = pixels_of_window(c * STRIDE_W - PAD_W, KW, w, PAD_W, PADDING_COUNTS)
            dy = tl.load(dy_ptr + plane + r * ow + c, mask=contains, other=0.0).to(tl.float32)
            sums += tl.where(contains, dy / (rows * columns), 0.0)
    tl.store(dx_ptr + i, sums.to(dx_ptr.dtype.element_ty), mask=i < total)
