"""matmul_tf32 beyond its cases: any size and layout exactly, what its tolerance refuses, rounding, registers."""

from __future__ import annotations

import operator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.conftest import on_cpu
from tests.sampled import combinations, examples

from warpwise import lab, operation, ops
from warpwise.gemm import mma_sync
from warpwise.ops.matmul_tf32 import _shared, rungs, spec
from warpwise.ops.matmul_tf32 import k02_transposed_in_registers as k02

RUNGS = [rung.name for rung in rungs.RUNGS if on_cpu(rung)]

NAMED = operator.attrgetter("name")


def integers(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    """Small integers: TF32 holds them, and every sum is exact."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, (rows, columns), generator=generator).float()


def laid(rows: int, columns: int, seed: int, transposed: bool, shift: int, gap: int) -> torch.Tensor:
    """A matrix ``shift`` elements into its storage, ``gap`` elements between its lines, which may be its columns."""
    count, length = (columns, rows) if transposed else (rows, columns)
    storage = integers(1, shift + count * (length + gap), seed)[0]
    matrix = storage[shift:].view(count, length + gap)[:, :length]
    return matrix.t() if transposed else matrix


@settings(max_examples=examples(15), deadline=None)
@given(
    m=st.integers(1, 140),
    n=st.integers(1, 140),
    k=st.integers(1, 80),
    shift=st.sampled_from([0, 0, 1]),
    gap=st.sampled_from([0, 3, 4]),
    transposed=st.tuples(st.booleans(), st.booleans()),
)
def test_any_size_alignment_and_layout(m, n, k, shift, gap, transposed):
    a, b = laid(m, k, 0, transposed[0], shift, gap), laid(k, n, 1, transposed[1], shift, gap)
    assert torch.equal(ops.matmul_tf32(a, b, rung="k01"), a @ b)


@pytest.mark.parametrize("tiling,transposed", combinations(rungs.MMA_SYNC.candidates, (False, True), names=[NAMED]))
@pytest.mark.one_in(3)
def test_every_tile(tiling, transposed):
    a, b = laid(264, 76, 0, transposed, 0, 8), laid(76, 272, 1, transposed, 0, 8)
    assert torch.equal(ops.matmul_tf32(a, b, rung=f"k01@{mma_sync.sized(tiling, torch.float32).name}"), a @ b)


def rounded(values: torch.Tensor, up: bool) -> torch.Tensor:
    """TF32, by cutting off 13 bits, or to nearest."""
    return ((values.view(torch.int32) + (0x1000 if up else 0)) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize(
    "operands,allowed",
    [
        (lambda x: rounded(x, False), True),
        (lambda x: rounded(x, True), True),
        (lambda x: x, True),
        (lambda x: x.bfloat16().float(), False),
    ],
)
def test_the_tolerance_lets_tf32_through_and_no_bfloat16(operands, allowed):
    problem = lab.Problem(operation.get("matmul_tf32"), torch.device("cpu"))
    instances = [problem.instance(case, torch.float32, 0) for case in spec.SPEC.cases]
    right = [
        instance.compare(0, operands(instance.args[0].contiguous()) @ operands(instance.args[1].contiguous())).right
        for instance in instances
        if not instance.empty
    ]
    assert all(right) == allowed


@pytest.mark.parametrize("rung", RUNGS)
def test_elements_are_rounded_to_nearest(rung):
    """1 + 2^-11 + 2^-20 is nearer to 1 + 2^-10 than to 1; Triton's interpreter rounds nothing."""
    a = torch.full((1, 1), 1 + 2**-11 + 2**-20)
    product = ops.matmul_tf32(a, torch.ones(1, 1), rung=rung).item()
    assert product in ((a.item(),) if "triton" in rung else (1 + 2**-10,))


@pytest.mark.parametrize("rung", RUNGS)
def test_infinity_and_nan_spread_along_their_row_only(rung):
    a, b = torch.ones(5, 7), torch.ones(7, 6)
    a[1, 6], a[2, 0], a[3, 1] = float("inf"), float("nan"), torch.tensor(0x7FFFFFFF).to(torch.int32).view(torch.float32)
    product = ops.matmul_tf32(a, b, rung=rung)
    assert product[1].tolist() == [float("inf")] * 6
    assert product[2:4].isnan().all()
    assert product[[0, 4]].tolist() == [[7.0] * 6] * 2


def test_float64_is_not_rounded():
    a = torch.full((1, 1), 1 + 2**-30, dtype=torch.float64)
    assert ops.matmul_tf32(a, a).item() == a.item() ** 2


def test_gradients_are_products():
    a, b = integers(4, 3).requires_grad_(), integers(3, 5, seed=1).requires_grad_()
    weight = integers(4, 5, seed=2)
    (ops.matmul_tf32(a, b, rung="k01") * weight).sum().backward()
    assert torch.equal(a.grad, weight @ b.detach().t())
    assert torch.equal(b.grad, a.detach().t() @ weight)


@pytest.mark.parametrize(
    "a,b,error,message",
    [
        (torch.ones(2), torch.ones(2, 2), ValueError, r"matmul_tf32: expected a with 2 dimensions, got shape \(2,\)"),
        (torch.ones(2, 3), torch.ones(2, 3), ValueError, r"as many rows as a has columns.* got \(2, 3\) and \(2, 3\)"),
        (
            torch.ones(2, 2),
            torch.ones(2, 2).double(),
            TypeError,
            "expected b of a's dtype torch.float32, got torch.float64",
        ),
        (torch.ones(2, 2), torch.ones(2, 2, device="meta"), ValueError, "expected b on a's device cpu, got meta"),
        (torch.ones(2, 2).half(), torch.ones(2, 2).half(), TypeError, "matmul_tf32: expected a of dtype"),
    ],
)
def test_wrong_arguments(a, b, error, message):
    with pytest.raises(error, match=message):
        ops.matmul_tf32(a, b)


@pytest.mark.gpu
def test_the_opponent_rounds_and_restores_the_setting():
    a, b = (torch.randn(512, 512, device="cuda", generator=torch.Generator("cuda").manual_seed(s)) for s in (0, 1))
    exact, before = a.double() @ b.double(), torch.backends.cuda.matmul.fp32_precision
    for setting in ("ieee", "tf32"):
        torch.backends.cuda.matmul.fp32_precision = setting
        try:
            error = (spec.eager(a, b).double() - exact).abs().max().item()
            assert torch.backends.cuda.matmul.fp32_precision == setting
        finally:
            torch.backends.cuda.matmul.fp32_precision = before
        assert 1e-3 < error < 0.2


MN_MAJOR_AND_SWAPPED = {"nn": (True, True), "nt": (False, False), "tt": (True, False), "tn": (True, True)}


@pytest.mark.parametrize("layouts", MN_MAJOR_AND_SWAPPED)
@pytest.mark.parametrize("m,n,k", [(256, 512, 64), (4, 8, 16), (37, 21, 19)])
def test_which_operand_goes_through_registers(layouts, m, n, k):
    a, b = laid(m, k, 0, layouts[0] == "t", 0, 0), laid(k, n, 1, layouts[1] == "t", 0, 0)
    first, second, mn_major, swapped = k02.roles(a, b)
    assert (mn_major, swapped) == MN_MAJOR_AND_SWAPPED[layouts]
    left, right = (b.t(), a) if swapped else (a, b.t())
    assert torch.equal(first, left.t() if mn_major else left)
    assert torch.equal(second, right)
    assert _shared.aligned_rows(first)
    assert _shared.aligned_rows(second)
    if layouts != "tn" and m > 37:
        assert {first.data_ptr(), second.data_ptr()} == {a.data_ptr(), b.data_ptr()}, "nothing is copied"


@pytest.mark.gpu
@pytest.mark.parametrize("tile", [tile.name for tile in k02.CONFIGS])
@pytest.mark.parametrize("m,n,k", [(256, 256, 64), (300, 516, 404), (1, 4, 16), (129, 67, 35), (640, 1000, 200)])
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_every_tile_of_warpgroups(tile, m, n, k, transposed):
    a, b = laid(m, k, 0, transposed[0], 0, 0).cuda(), laid(k, n, 1, transposed[1], 0, 0).cuda()
    assert torch.equal(ops.matmul_tf32(a, b, rung=f"k02@{tile}"), (a.double() @ b.double()).float())


@pytest.mark.gpu
def test_tma_rounds_both_operands_to_nearest():
    x, one = torch.full((64, 64), 1 + 2**-11 + 2**-20, device="cuda"), torch.eye(64, device="cuda")
    for a, b in ((x, one), (one, x), (x.t(), one), (x, one.t())):
        assert (ops.matmul_tf32(a, b, rung="k02") == 1 + 2**-10).all()


def test_defaults():
    default = operation.get("matmul_tf32").default
    a = torch.empty(64, 64)
    assert default(a.double(), a.double()) is None
