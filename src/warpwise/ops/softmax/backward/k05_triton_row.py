"""Backward with the row in one Triton block: dy and y loaded once, one reduction."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def softmax_backward_row(dy_ptr, y_ptr, dx_ptr, columns, BLOCK: tl.constexpr):
    """dy, y, dx: (rows, columns), contiguous. Grid: rows programs; BLOCK >= columns."""
    start = tl.program_id(0).to(tl.int64) * columns
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    dy = tl.load(dy_ptr + start + offsets, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + start + offsets, mask=inside, other=0.0).to(tl.float32)
    dx = y * (dy - tl.sum(dy * y, axis=0))
    tl.store(dx_ptr + start + offsets, dx.to(dx_ptr.dtype.element_ty), mask=inside)
