"""Backward in Triton for rows of any length: BLOCK columns per iteration; the second read hits in L2."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def softmax_backward_loop(dy_ptr, y_ptr, dx_ptr, columns, BLOCK: tl.constexpr):
    """dy, y, dx: (rows, columns), contiguous. Grid: rows programs; BLOCK columns per iteration."""
    start = tl.program_id(0).to(tl.int64) * columns
    offsets = tl.arange(0, BLOCK)

    products = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        inside = first + offsets < columns
        dy = tl.load(dy_ptr + start + first + offsets, mask=inside, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + start + first + offsets, mask=inside, other=0.0).to(tl.float32)
        products += dy * y
    dot = tl.sum(products, axis=0)

    for first in range(0, columns, BLOCK):
        inside = first + offsets < columns
        dy = tl.load(dy_ptr + start + first + offsets, mask=inside, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + start + first + offsets, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx_ptr + start + first + offsets, (y * (dy - dot)).to(dx_ptr.dtype.element_ty), mask=inside)
