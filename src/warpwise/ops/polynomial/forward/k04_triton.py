"""The fused expression in Triton: one block per program, computed in float32 or float64, rounded once."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def polynomial(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # x, out: (n,). Grid: ceil(n / BLOCK).
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    if x.dtype != tl.float64:
        x = x.to(tl.float32)
    tl.store(out_ptr + offsets, (x * x + x + 1).to(out_ptr.dtype.element_ty), mask=inside)
