"""Online softmax in Triton for rows of any length: one (maximum, sum) per element of BLOCK, combined at the end.

The row is read twice; the second read hits in L2. The running statistics stay elementwise, so the loop contains no
reduction.
"""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def softmax_online(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    """x, y: (rows, columns), contiguous. Grid: rows programs; BLOCK columns per iteration."""
    start = tl.program_id(0).to(tl.int64) * columns
    offsets = tl.arange(0, BLOCK)

    # e^(-inf - -inf) is NaN: the sum is not rescaled while its maximum is -inf, and x = -inf adds 0.
    maximum = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        inside = first + offsets < columns
        x = tl.load(x_ptr + start + first + offsets, mask=inside, other=-float("inf")).to(tl.float32)
        new_maximum = tl.maximum(maximum, x)
        scale = tl.where(maximum == new_maximum, 1.0, tl.exp(maximum - new_maximum))
        total = total * scale + tl.where(x == -float("inf"), 0.0, tl.exp(x - new_maximum))
        maximum = new_maximum

    row_maximum = tl.max(maximum, axis=0)
    scale = tl.where(maximum == row_maximum, 1.0, tl.exp(maximum - row_maximum))
    row_total = tl.sum(total * scale, axis=0)

    for first in range(0, columns, BLOCK):
        inside = first + offsets < columns
        x = tl.load(x_ptr + start + first + offsets, mask=inside, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - row_maximum) / row_total
        tl.store(y_ptr + start + first + offsets, y.to(y_ptr.dtype.element_ty), mask=inside)
