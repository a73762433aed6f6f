"""Classes of values, ``tl.core._aggregate``, with methods that are device functions.

Triton reads the annotations of a class: they must be types, not texts.
"""

import pytest
import torch
import triton
import triton.language as tl

from warpwise import triton as wt

_aggregate = getattr(tl.core, "_aggregate", None)
pytestmark = pytest.mark.skipif(
    _aggregate is None or not hasattr(triton, "constexpr_function"), reason="new in Triton 3.5"
)

if _aggregate is not None and hasattr(triton, "constexpr_function"):

    @_aggregate
    class Moments:
        count: tl.constexpr
        total: tl.tensor
        squares: tl.tensor

        @triton.constexpr_function
        def __init__(self, count, total, squares):
            self.count = tl.constexpr(count)
            self.total = total
            self.squares = squares

        @triton.jit
        def of_first(x, COUNT: tl.constexpr):
            return Moments(COUNT, x, x * x)

        @triton.jit
        def plus(self, x):
            return Moments(self.count, self.total + x, self.squares + x * x)

        @triton.jit
        def variance(self):
            mean = self.total / self.count
            return self.squares / self.count - mean * mean


@wt.jit
def variances(x_ptr, out_ptr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    moments = Moments.of_first(tl.load(x_ptr + at), ROWS)
    for row in range(1, ROWS):
        moments = moments.plus(tl.load(x_ptr + row * BLOCK + at))
    tl.store(out_ptr + at, moments.variance())


def test_methods_are_bound_to_a_value() -> None:
    x, out = torch.randn(5, 16, generator=torch.Generator().manual_seed(0)), torch.empty(16)
    variances[1](x, wt.out(out), 5, 16)
    torch.testing.assert_close(out, x.var(0, correction=0))
