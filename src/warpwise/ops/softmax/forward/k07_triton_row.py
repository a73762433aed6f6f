"""The row in one Triton block: loaded once, reduced and stored; Triton distributes it over the threads.

Triton generates the 16-byte loads, the shuffles and the register tile of k05, provided that BLOCK, the power of two
at or above the number of columns, fits the registers of one program: 65536 float32 over 1024 threads are 64 each.
"""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def softmax_row(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    """x, y: (rows, columns), contiguous. Grid: rows programs; BLOCK >= columns."""
    start = tl.program_id(0).to(tl.int64) * columns
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + start + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(y_ptr + start + offsets, y.to(y_ptr.dtype.element_ty), mask=inside)
