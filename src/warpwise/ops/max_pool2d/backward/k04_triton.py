"""A block of pixels per program in Triton adds the windows that chose them; the loop over windows is unrolled."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def max_pool2d_backward(
    dy_ptr,
    indices_ptr,
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
    BLOCK: tl.constexpr,
):
    """dx: (planes, h, w), `total` pixels; dy, indices: (planes, oh, ow). Grid: cdiv(total, BLOCK) programs.

    Up to cdiv(KH, STRIDE_H) cdiv(KW, STRIDE_W) windows contain a pixel; the last one of a column of windows is the
    one with row (row + PAD_H) / STRIDE_H.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pixel, plane = i % (h * w), (i // (h * w)).to(tl.int64) * oh * ow
    row, column = pixel // w + PAD_H, pixel % w + PAD_W
    sums = tl.zeros((BLOCK,), tl.float32)
    for up in tl.static_range((KH + STRIDE_H - 1) // STRIDE_H):
        for back in tl.static_range((KW + STRIDE_W - 1) // STRIDE_W):
            r, c = row // STRIDE_H - up, column // STRIDE_W - back
            contains = (r >= 0) & (r < oh) & (row < r * STRIDE_H + KH) & (c >= 0) & (c < ow)
            contains &= (column < c * STRIDE_W + KW) & (i < total)
            window = plane + r * ow + c
            chosen = contains & (tl.load(indices_ptr + window, mask=contains, other=-1) == pixel)
            sums += tl.load(dy_ptr + window, mask=chosen, other=0.0).to(tl.float32)
    tl.store(dx_ptr + i, sums.to(dx_ptr.dtype.element_ty), mask=i < total)
