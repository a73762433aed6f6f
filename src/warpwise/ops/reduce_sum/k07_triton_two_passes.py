"""The two passes in Triton: a program adds part of a row and reduces once; a second launch adds the sums."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def sum_two_passes(x_ptr, sums_ptr, columns, parts, BLOCK: tl.constexpr):
    """x: (rows, columns), contiguous; sums: (rows, parts). Grid: rows * parts programs."""
    program = tl.program_id(0)
    row, part = (program // parts).to(tl.int64), program % parts
    start = row * columns
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range((part * BLOCK).to(tl.int64), columns, parts * BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + start + offsets, mask=offsets < columns, other=0.0).to(tl.float32)
    tl.store(sums_ptr + program, tl.sum(total, axis=0).to(sums_ptr.dtype.element_ty))
