"""The matrices that TMA can address."""

from __future__ import annotations

import torch

from warpwise.gemm import boxes


def test_what_tma_cannot_address_is_refused():
    a, b = torch.zeros(8, 16).half(), torch.zeros(16, 8).half()
    assert boxes.product_limit(a, b) is None
    limit = boxes.product_limit(a, b[:, :7])
    assert "takes n in multiples of 8, so that rows of C begin at multiples of 16 bytes, not 7" in limit
    assert "multiples of 8 elements, not strides (15, 1)" in boxes.product_limit(torch.zeros(8, 15).half(), b[:15])
    wide = torch.zeros(8, 32).half()[:, ::2]
    assert "begin at multiples of 8 elements, not strides (32, 2)" in boxes.product_limit(wide, b)
    assert "begin at multiples of 8 elements, not strides (0, 1)" in boxes.product_limit(a[:1].expand(8, 16), b)
    shifted = torch.empty(8 * 16 + 1, dtype=torch.half)[1:].view(8, 16)
    assert boxes.product_limit(shifted, b) == "takes a whose address is a multiple of 16 bytes"
    assert boxes.product_limit(a, shifted.view(16, 8)) == "takes b whose address is a multiple of 16 bytes"
