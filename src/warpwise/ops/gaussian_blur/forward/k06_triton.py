"""One pass of the separable blur in Triton, along either axis; the number of taps is a compile-time constant."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def blur_along(
    in_ptr,
    weights_ptr,
    out_ptr,
    area,
    extent,
    stride,
    TAPS: tl.constexpr,
    SUM: tl.constexpr,
    SHIFT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # in, out: (planes, area), an image of `area` pixels a plane; the axis has `extent` pixels, `stride` elements apart.
    # weights: (TAPS,). SHIFT > 0 rounds fixed-point sums to integers. Grid: planes * ceil(area / BLOCK).
    blocks = tl.cdiv(area, BLOCK)
    first = (tl.program_id(0) // blocks).to(tl.int64) * area
    pixel = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    inside = pixel < area
    position = pixel // stride % extent
    start = in_ptr + first + pixel - position * stride
    total = tl.zeros((BLOCK,), dtype=SUM)
    for k in tl.static_range(TAPS):
        at = tl.abs(position + (k - TAPS // 2))
        at = tl.where(at < extent, at, 2 * (extent - 1) - at)
        total += tl.load(start + at * stride, mask=inside, other=0).to(SUM) * tl.load(weights_ptr + k).to(SUM)
    if SHIFT > 0:
        total = (total + (1 << (SHIFT - 1))) >> SHIFT
    tl.store(out_ptr + first + pixel, total.to(out_ptr.dtype.element_ty), mask=inside)
