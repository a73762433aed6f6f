"""Online softmax in Triton for rows of any length: one (maximum, sum) for each of BLOCK lanes, joined at the row's end.

Two reads of the row, the second from L2. The running statistics stay elementwise, so the loop holds no reduction.
"""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def softmax_online(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    """x, y: (rows, columns), contiguous. Grid: rows programs; BLOCK columns a turn."""
    start = tl.program_id(0).to(tl.int64) * columns
    offsets = tl.arange(0, BLOCK)

    # e^(-inf - -inf) is NaN: a lane that has seen nothing finite keeps its sum, and an x of -inf adds nothing to it.
    maximum = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        inside = first + offsets < columns
        x = tl.load(x_ptr + start + first + offsets, mask=inside, other=-float("inf")).to(tl.float32)
        raised = tl.maximum(maximum, x)
        scale = tl.where(maximum == raised, 1.0, tl.exp(maximum - raised))
        total = total * scale + tl.where(x == -float("inf"), 0.0, tl.exp(x - raised))
        maximum = raised

    row_maximum = tl.max(maximum, axis=0)
    scale = tl.where(maximum == row_maximum, 1.0, tl.exp(maximum - row_maximum))
    row_total = tl.sum(total * scale, axis=0)

    for first in range(0, columns, BLOCK):
        inside = first + offsets < columns
        x = tl.load(x_ptr + start + first + offsets, mask=inside, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - row_maximum) / row_total
        tl.store(y_ptr + start + first + offsets, y.to(y_ptr.dtype.element_ty), mask=inside)
