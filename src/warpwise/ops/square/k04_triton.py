"""One block per program; Triton generates the 16-byte loads that k03 writes explicitly."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def square(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # x, out: (n,). Grid: ceil(n / BLOCK).
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x * x, mask=inside)
