"""Triton's tl.histogram of each block of elements, accumulated in registers and added once to global memory."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def histogram(x_ptr, counts_ptr, n, bins, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """x: (n,); counts: (bins,) int64, zero before; BINS: a power of two, at least bins. Any grid."""
    total = tl.zeros((BINS,), tl.int32)
    start, step = tl.program_id(0).to(tl.int64) * BLOCK, tl.num_programs(0) * BLOCK
    for first in range(start, n, step):
        offsets = first + tl.arange(0, BLOCK)
        inside = offsets < n
        values = tl.load(x_ptr + offsets, mask=inside, other=0).to(tl.int32)
        total += tl.histogram(values, BINS, mask=inside & (values >= 0) & (values < bins))
    counters = tl.arange(0, BINS)
    tl.atomic_add(counts_ptr + counters, total.to(tl.int64), mask=counters < bins)
