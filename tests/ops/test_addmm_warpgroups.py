"""addmm's k02: the machine code, the arguments that it takes, and exact results for every kind of addend."""

from __future__ import annotations

import pytest
import torch

from warpwise import operation, ops

ADDMM = operation.get("addmm")


def integers(*shape: int, seed: int = 0) -> torch.Tensor:
    """Small integers, whose sums here are exact in float32."""
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).float()


def test_what_is_taken():
    rung = ADDMM.rung("k02")
    a, b = torch.empty(16, 8, dtype=torch.half), torch.empty(8, 24, dtype=torch.half)
    for shape in ((16, 24), (24,), (1, 24)):
        assert rung.limits(torch.empty(shape, dtype=torch.half), a, b, 1.0, 1.0) is None
    column = torch.empty(16, 1, dtype=torch.half)
    assert "takes an input that is a row, or a matrix" in rung.limits(column, a, b, 1.0, 1.0)
    assert rung.limits(column, a, b, 0.0, 1.0) is None, "nothing of it is read"


@pytest.mark.gpu
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("added", [None, "row", "matrix"])
@pytest.mark.parametrize("size", [(1000, 520, 200), (4096, 2048, 1032)])
def test_every_layout(a_transposed, b_transposed, added, size):
    m, n, k = size
    a = integers(k, m).t() if a_transposed else integers(m, k)
    b = integers(n, k, seed=1).t() if b_transposed else integers(k, n, seed=1)
    c = integers(*((n,) if added == "row" else (m, n)), seed=2)
    c, a, b = (value.to("cuda", torch.bfloat16) for value in (c, a, b))
    beta = 2.0 if added else 0.0
    expected = ADDMM.spec.reference(c, a, b, beta, -0.5).to(torch.bfloat16)
    assert torch.equal(ops.addmm(c, a, b, beta, -0.5, rung="k02"), expected)
