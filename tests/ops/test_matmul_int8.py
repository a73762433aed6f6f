"""matmul of int8: exact in 32 bits, as far as 32 bits reach."""

from __future__ import annotations

import pytest
import torch

from warpwise import ops
from warpwise.ops.matmul import spec


def test_the_product_of_bytes_is_exact():
    """If every product is the largest, 2^14, the sum exceeds float32's 24 bits of mantissa."""
    a, b = torch.full((2, 4099), -128, dtype=torch.int8), torch.full((4099, 3), -128, dtype=torch.int8)
    b[0, 0] = 1
    product = ops.matmul(a, b)
    assert product.dtype == torch.int32
    assert product[:, 1].tolist() == [4099 * 2**14] * 2
    assert product[:, 0].tolist() == [4098 * 2**14 - 128] * 2


def test_sums_that_32_bits_cannot_hold_are_refused():
    longest = torch.empty(1, 1, dtype=torch.int8).expand(1, spec.MAX_INT8_K)
    spec.check(longest, longest.t())
    assert spec.MAX_INT8_K * 2**14 < 2**31 <= (spec.MAX_INT8_K + 1) * 2**14
    longer = torch.empty(1, 1, dtype=torch.int8).expand(1, spec.MAX_INT8_K + 1)
    with pytest.raises(
        ValueError, match=r"matmul: expected a of torch.int8 with up to 131071 columns.* got \(1, 131072\)"
    ):
        ops.matmul(longer, longer.t())


def test_what_moves_is_counted_by_its_width():
    a, b = torch.empty(4, 8, dtype=torch.int8), torch.empty(8, 2, dtype=torch.int8)
    assert spec.product_cost(a, b).bytes == 4 * 8 + 8 * 2 + 4 * 4 * 2
    assert spec.product_cost(a.half(), b.half()).bytes == 2 * (4 * 8 + 8 * 2 + 4 * 2)


def test_compiles_into_one_graph():
    torch._dynamo.reset()
    a, b = torch.ones(3, 5, dtype=torch.int8), torch.ones(5, 2, dtype=torch.int8)
    compiled = torch.compile(lambda *pair: ops.matmul(*pair), fullgraph=True, backend="aot_eager")(a, b)
    assert torch.equal(compiled, torch.full((3, 2), 5, dtype=torch.int32))


@pytest.mark.gpu
@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (17, 8, 8), (16, 24, 32), (33, 61, 17), (3, 0, 4), (2, 3, 0)])
def test_the_opponent_is_exact_at_any_size(m, n, k):
    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.randint(-128, 128, s, generator=generator, device="cuda").to(torch.int8) for s in ((m, k), (k, n)))
    assert torch.equal(spec.eager(a, b), spec.SPEC.reference(a, b).int())
