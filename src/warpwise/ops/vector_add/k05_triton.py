"""One block per program; Triton generates the 16-byte loads of k03. For comparison with CUDA C++."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def vector_add(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # a, b, out: (n,). Grid: ceil(n / BLOCK).
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    a = tl.load(a_ptr + offsets, mask=inside)
    b = tl.load(b_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, a + b, mask=inside)
