"""Kernels interpreted on CPU tensors give what PyTorch gives."""

from __future__ import annotations

import torch
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwise import triton as wt


@wt.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 700), block=st.sampled_from([16, 64, 256]), seed=st.integers(0, 3))
def test_vector_add(n: int, block: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, n, generator=generator)
    out = torch.empty(n)
    add[lambda meta: (wt.cdiv(n, meta["BLOCK"]),)](x, y, wt.out(out), n, BLOCK=block, num_warps=4)
    assert torch.equal(out, x + y)
