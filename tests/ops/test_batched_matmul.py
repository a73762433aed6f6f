"""batched_matmul beyond its cases: any strides without copies, broadcast operands, limits, configurations."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.conftest import on_cpu
from tests.sampled import examples

from warpwise import operation, ops
from warpwise.ops.batched_matmul import rungs, spec

FEW = settings(max_examples=examples(10), deadline=None)
RUNGS = [rung.name for rung in rungs.RUNGS if on_cpu(rung)]
OP = operation.get("batched_matmul")


def integers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """Small integers: every partial sum is exact in float32 and every result in float16, so results must be equal."""
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def exact(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() @ b.double()).to(a.dtype)


@FEW
@given(
    batch=st.integers(1, 5),
    m=st.integers(1, 140),
    n=st.integers(1, 140),
    k=st.integers(1, 70),
    a_transposed=st.booleans(),
    b_transposed=st.booleans(),
    rung=st.sampled_from(["k01", "k04"]),
)
def test_any_size_and_layout(batch, m, n, k, a_transposed, b_transposed, rung):
    same_at(batch, m, n, k, a_transposed, b_transposed, rung, torch.float16)


def same_at(batch, m, n, k, a_transposed, b_transposed, rung, dtype):
    a = integers(batch, k, m, dtype=dtype).mT if a_transposed else integers(batch, m, k, dtype=dtype)
    b = integers(batch, n, k, seed=1, dtype=dtype).mT if b_transposed else integers(batch, k, n, seed=1, dtype=dtype)
    assert torch.equal(ops.batched_matmul(a, b, rung=rung), exact(a, b))


@FEW
@given(
    batch=st.integers(1, 4),
    m=st.integers(1, 140),
    n=st.integers(1, 140),
    k=st.integers(1, 70),
    a_transposed=st.booleans(),
    b_transposed=st.booleans(),
    rung=st.sampled_from(["k01", "k04"]),
)
def test_any_size_and_layout_in_float32(batch, m, n, k, a_transposed, b_transposed, rung):
    same_at(batch, m, n, k, a_transposed, b_transposed, rung, torch.float32)


@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
def test_aligned_sizes_in_every_layout(a_transposed, b_transposed):
    """Sizes in fours take 16-byte loads, each along memory's order."""
    same_at(2, 136, 264, 72, a_transposed, b_transposed, "k04", torch.float32)


@pytest.mark.parametrize("rung", RUNGS)
def test_views_are_read_in_place(rung, monkeypatch):
    """Heads of one projection, every second matrix, a broadcast batch: no rung copies."""
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda self: pytest.fail("copied"))
    heads = integers(2, 24, 3 * 32)  # (batch, tokens, 3 heads of 32)
    queries = heads.unflatten(2, (3, 32))[:, :, 1]
    keys = integers(2, 24, 96, seed=1).unflatten(2, (3, 32))[:, :, 2].mT
    assert torch.equal(ops.batched_matmul(queries, keys, rung=rung), exact(queries, keys))
    every_second = integers(6, 16, 24)[1::2]
    one = integers(24, 40, seed=1).expand(3, 24, 40)
    assert torch.equal(ops.batched_matmul(every_second, one, rung=rung), exact(every_second, one))


@pytest.mark.parametrize("rung", RUNGS)
def test_a_two_dimensional_operand_is_broadcast(rung):
    a, b = integers(70, 72).t()[:, :40], integers(3, 40, 24, seed=1)
    assert torch.equal(ops.batched_matmul(a, b, rung=rung), exact(a, b))
    a, b = integers(3, 17, 40), integers(24, 40, seed=1).t()
    assert torch.equal(ops.batched_matmul(a, b, rung=rung), exact(a, b))


@pytest.mark.parametrize("rung", RUNGS)
def test_infinity_and_nan_spread_along_their_row_only(rung):
    """Zeros that pad a tile must not be multiplied by an infinity, also not by that of a neighbouring matrix: 0 * inf
    is NaN."""
    a, b = torch.ones(3, 5, 8, dtype=torch.float16), torch.ones(3, 8, 8, dtype=torch.float16)
    a[1, 1, 6], a[1, 2, 0] = float("inf"), float("nan")
    product = ops.batched_matmul(a, b, rung=rung)
    assert product[1, 1].tolist() == [float("inf")] * 8
    assert product[1, 2].isnan().all()
    assert (product[1, [0, 3, 4]] == 8).all()
    assert (product[[0, 2]] == 8).all()


def test_boxes_end_with_their_matrix_without_a_mask():
    """A box would reach past its matrix into the next one if the tensor map had no batch dimension."""
    a, b = integers(4, 70, 40), integers(4, 40, 72, seed=1)
    assert torch.equal(ops.batched_matmul(a, b, rung="k03"), exact(a, b))


@pytest.mark.parametrize("sm_count", [1, 1000])
def test_large_and_small_tiles(sm_count):
    a, b = integers(2, 130, 40), integers(2, 40, 136, seed=1)
    with operation.assume_sm_count(sm_count):
        assert torch.equal(ops.batched_matmul(a, b, rung="k01"), exact(a, b))


def test_half_precision_is_accumulated_in_float32():
    a, b = torch.ones(1, 1, 4096, dtype=torch.float16), torch.ones(1, 8, 4096, dtype=torch.float16).mT
    for rung in RUNGS:
        assert ops.batched_matmul(a, b, rung=rung).tolist() == [[[4096.0] * 8]]


@pytest.mark.parametrize("shared", ["a", "b"])
def test_gradients_of_broadcast_operands_are_summed_over_the_batch(shared):
    a, b = torch.randn(3, 4, 5, dtype=torch.float64), torch.randn(3, 5, 2, dtype=torch.float64)
    a, b = (a[0] if shared == "a" else a).requires_grad_(), (b[0] if shared == "b" else b).requires_grad_()
    assert torch.autograd.gradcheck(ops.batched_matmul, (a, b))
    assert torch.autograd.gradgradcheck(ops.batched_matmul, (a, b))


def test_autocast_takes_low_precision():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.batched_matmul(torch.ones(2, 2, 3), torch.ones(3, 2)).dtype == torch.bfloat16


def test_cost_counts_a_broadcast_operand_once():
    a, b = torch.empty(4, 2, 3), torch.empty(3, 5)
    assert spec.cost(a, b).bytes == 4 * (4 * 2 * 3 + 3 * 5 + 4 * 2 * 5)
    assert spec.cost(a, b.expand(4, 3, 5)) == spec.cost(a, b)
    assert spec.cost(a, b).flops == 2 * 4 * 2 * 5 * 3


def test_what_a_rung_cannot_take_is_refused():
    warpgroups = OP.rung("k03")
    a, b = torch.empty(2, 8, 8, dtype=torch.half), torch.empty(2, 8, 8, dtype=torch.half)
    assert OP.refusal(warpgroups, a, b) is None
    assert "takes n in multiples of 8" in warpgroups.limits(a, b[:, :, :7])
    assert "begin at multiples of 8 elements, not strides (56, 7, 1)" in warpgroups.limits(
        torch.empty(2, 8, 7).half(), b
    )
    assert "begin at multiples of 8 elements" in warpgroups.limits(a[:, :, ::2], b)
    shifted = torch.empty(2 * 8 * 8 + 1, dtype=torch.half)[1:].view(2, 8, 8)
    assert warpgroups.limits(shifted, b) == "takes a whose address is a multiple of 16 bytes"
    assert "takes torch.float16, torch.bfloat16, not torch.float32" in OP.refusal(warpgroups, a.float(), b.float())


def test_defaults():
    a = torch.empty(2, 8, 8)
    half = a.half()
    for args in ((a, a), (a, a.mT), (half, half), (half[:, :, :5], half[:, :5, :5])):
        assert OP.unsupported(OP.rung(OP.default(*args)), *args) is None
    assert OP.default(a.double(), a.double()) is None
    tall = torch.empty(1, 1, 2).expand(1, 2**31, 2)
    assert OP.default(tall, torch.empty(2, 2)) is None


@pytest.mark.parametrize(
    "a,b,error,message",
    [
        (
            torch.ones(2),
            torch.ones(2, 2),
            ValueError,
            r"batched_matmul: expected a with 2 or 3 dimensions, got shape \(2,\)",
        ),
        (
            torch.ones(2, 2),
            torch.ones(2, 2),
            ValueError,
            r"expected a batch of matrices.* got \(2, 2\) and \(2, 2\); see matmul",
        ),
        (
            torch.ones(2, 2, 2),
            torch.ones(3, 2, 2),
            ValueError,
            r"as many matrices in b as in a.* got \(2, 2, 2\) and \(3, 2, 2\)",
        ),
        (
            torch.ones(2, 2, 3),
            torch.ones(2, 2),
            ValueError,
            r"as many rows as a has columns.* got \(2, 2, 3\) and \(2, 2\)",
        ),
        (
            torch.ones(2, 2, 2),
            torch.ones(2, 2).half(),
            TypeError,
            "expected b of a's dtype torch.float32, got torch.float16",
        ),
        (torch.ones(2, 2, 2), torch.ones(2, 2, device="meta"), ValueError, "expected b on a's device cpu, got meta"),
    ],
)
def test_wrong_arguments(a, b, error, message):
    with pytest.raises(error, match=message):
        ops.batched_matmul(a, b)
