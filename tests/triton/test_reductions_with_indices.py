"""``tl.max`` and ``tl.min`` with indices: ties, NaN and other combine functions."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt


@wt.jit
def extremes(x_ptr, value_ptr, index_ptr, MAX: tl.constexpr, LEFT: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if MAX:
        value, index = tl.max(x, 1, return_indices=True, return_indices_tie_break_left=LEFT)
    else:
        value, index = tl.min(x, 1, return_indices=True, return_indices_tie_break_left=LEFT)
    tl.store(value_ptr + tl.arange(0, M), value)
    tl.store(index_ptr + tl.arange(0, M), index)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
@pytest.mark.parametrize("left", [True, False])
def test_ties(largest: bool, dtype: torch.dtype, left: bool) -> None:
    """Without a rule for ties, the index is any of the equal elements."""
    x = torch.randint(0, 5, (8, 64), generator=torch.Generator().manual_seed(0)).to(dtype)
    value, index = torch.empty(8, dtype=dtype), torch.empty(8, dtype=torch.int32)
    extremes[1](x, wt.out(value), wt.out(index), MAX=largest, LEFT=left, M=8, N=64)
    wanted = x.amax(1) if largest else x.amin(1)
    assert torch.equal(value, wanted)
    assert torch.equal(x.gather(1, index.long()[:, None])[:, 0], wanted)
    if left:
        assert torch.equal(index.long(), (x == wanted[:, None]).int().argmax(1))


def test_a_row_with_nan_is_compared_pair_by_pair() -> None:
    x = torch.arange(16.0).repeat(2, 1)
    x[1, 3] = float("nan")
    value, index = torch.empty(2), torch.empty(2, dtype=torch.int32)
    extremes[1](x, wt.out(value), wt.out(index), MAX=True, LEFT=True, M=2, N=16)
    assert value[0] == 15 and index[0] == 15
    assert value[1] == 15 and index[1] == 15  # a comparison with NaN is false, and keeps the later element
