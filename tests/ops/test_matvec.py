"""matvec beyond its cases: any shape, order and alignment exactly, every division of the work, gradients, errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.sampled import combinations, examples

from warpwise import operation, ops, tuned
from warpwise.ops.matvec import k03_rows_together, k04_columns, k06_unaligned_rows, k09_few_columns, rungs
from warpwise.ops.matvec._tables import TABLES, describe

FEW = settings(max_examples=examples(15), deadline=None)
RUNGS = [rung.name for rung in rungs.RUNGS]


def integers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small integers: every partial sum is exact, so results must be equal and not merely close."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).to(dtype)


def taken(rung: str, a: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether the rung takes the matrix: k09 is for few columns."""
    limits = operation.get("matvec").rung(rung).limits
    return limits is None or limits(a, x) is None


@FEW
@given(
    m=st.integers(1, 300),
    k=st.integers(1, 300),
    shift=st.integers(0, 5),
    across=st.booleans(),
    rung=st.sampled_from(RUNGS),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
)
def test_any_size_order_and_alignment(m, k, shift, across, rung, dtype):
    flat = integers(m * k + shift, dtype=dtype)[shift:]
    a = flat.view(k, m).t() if across else flat.view(m, k)
    x = integers(k + shift, seed=1, dtype=dtype)[shift:]
    assume(taken(rung, a, x))
    assert torch.equal(ops.matvec(a, x, rung=rung), (a.double() @ x.double()).to(dtype))


@pytest.mark.parametrize("rung", RUNGS)
def test_views(rung):
    """Rows and columns with gaps, a broadcast row, a broadcast column, a vector with gaps: nothing is assumed
    contiguous."""
    a, x = integers(40, 96), integers(96, seed=1)
    for view in (a[::2], a[:, 8:72], a[:, ::3], a[:1].expand(40, 96), a[:, :1].expand(40, 96), a.t()[::2].t(), a[4:5]):
        given_x = x[: view.shape[1]]
        if taken(rung, view, given_x):
            assert torch.equal(ops.matvec(view, given_x, rung=rung), view @ given_x)
    assert torch.equal(ops.matvec(a[:, :48], x[::2], rung=rung), a[:, :48] @ x[::2])


@pytest.mark.parametrize("rung", ["k03_rows_together", "k04_columns", "k06_unaligned_rows"])
def test_every_configuration(rung):
    """Also what a rung would not choose for these sizes: more lanes than a column has rows, more threads than a row has
    elements."""
    found = operation.get("matvec").rung(rung)
    for m, k in ((70, 1200), (3, 40)):
        a, x = integers(m, k), integers(k, seed=1)
        for matrix in (a, a.t().contiguous().t()):
            for config in found.configs(matrix, x):
                assert torch.equal(ops.matvec(matrix, x, rung=f"{found.name}@{config}"), a @ x), config


@pytest.mark.parametrize(
    "rung,sm_count", combinations(["k03_rows_together", "k04_columns", "k06_unaligned_rows"], [1, 3, 1000])
)
def test_every_division_of_the_work(rung, sm_count, monkeypatch):
    """Rows a team, a warp or a block a row, and parts of K follow from the sizes and the GPU's SMs."""
    for module in (k03_rows_together, k04_columns, k06_unaligned_rows):
        monkeypatch.setattr(module, "sm_count", lambda tensor: sm_count)
    for m, k in ((600, 33), (130, 260), (9, 5000), (1, 9001)):
        a, x = integers(m, k), integers(k, seed=1)
        for matrix in (a, a.t().contiguous().t()):
            assert torch.equal(ops.matvec(matrix, x, rung=rung), a @ x)


@pytest.mark.parametrize(
    "sizes,dtype",
    combinations(
        [(300, 64, 64), (301, 17, 20), (515, 64, 72), (129, 130, 136), (70, 8, 8), (99, 15, 16)],
        [torch.float32, torch.bfloat16],
    ),
)
@pytest.mark.one_in(3)
def test_short_rows_take_parts_of_warps(sizes, dtype):
    m, k, pitch = sizes
    a, x = integers(m, pitch, dtype=dtype)[:, :k], integers(k, seed=1, dtype=dtype)
    configs = k03_rows_together.configs(a, x)
    assert configs[0].startswith(("t1_", "t2_", "t4_", "t8_", "t16_", "t32_"))
    for config in configs[:3]:
        assert torch.equal(ops.matvec(a, x, rung=f"k03@{config}"), (a.double() @ x.double()).to(dtype)), config


def test_few_columns_are_loaded_at_once():
    for m, k in ((300, 5), (264, 64), (7, 128)):
        a, x = integers(k, m).t(), integers(k, seed=1)
        for config in k04_columns.configs(a, x):
            assert torch.equal(ops.matvec(a, x, rung=f"k04@{config}"), a @ x), config


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("m,k,pitch", [
    (300, 5, 300), (259, 16, 260), (1, 1, 1), (513, 12, 513), (1026, 3, 1030), (1001, 19, 1001), (264, 37, 264),
    (130, 48, 130), (77, 33, 80),
])  # fmt: skip
def test_few_columns_of_any_pitch(m, k, pitch, dtype):
    a, x = integers(k, pitch, dtype=dtype)[:, :m].t(), integers(k, seed=1, dtype=dtype)
    for config in k09_few_columns.configs(a, x):
        expected = (a.double() @ x.double()).to(dtype)
        assert torch.equal(ops.matvec(a, x, rung=f"k09@{config}"), expected), config


def test_kinds_and_shipped_points():
    a, x = torch.empty(8, 12), torch.empty(12)
    assert describe(a, x) == ("n", {"m": 8, "k": 12})
    assert describe(a.t(), x[:8])[0] == "t"
    assert describe(a[:, 1:], x[1:])[0] == "n unaligned"
    assert describe(torch.empty(8, 13), torch.empty(13))[0] == "n unaligned"
    assert describe(a[:, ::3], x[::3])[0] == "n", "what has gaps is copied"
    op = operation.get("matvec")
    paths = list(TABLES.folder.glob("*.json"))
    assert paths
    for path in paths:
        for point in tuned.load(path).points:
            for name in {point.winner, point.rival} - {tuned.TORCH}:
                assert op.rung(name.partition("@")[0]).name == name.partition("@")[0]


def test_triton_counts_columns_in_32_bits():
    rung = operation.get("matvec").rung("k05")
    long = torch.empty(1).expand(1, 2**31 - 512)
    assert "takes up to 2147482624 columns, or 2**31 and more" in rung.limits(long, long[0])
    assert rung.limits(torch.empty(1).expand(1, 2**31), torch.empty(1).expand(2**31)) is None


def test_the_default():
    op = operation.get("matvec")
    for shape in ((4, 6), (64, 7), (64, 8)):
        for a in (torch.empty(shape), torch.empty(shape[::-1]).t()):
            x = torch.empty(shape[1])
            assert op.unsupported(op.rung(op.default(a, x)), a, x) is None
    assert op.default(a.double(), x.double()) is None


def test_gradients():
    a, x = integers(4, 3).requires_grad_(), integers(3, seed=1).requires_grad_()
    weight = integers(4, seed=2)
    (ops.matvec(a, x) * weight).sum().backward()
    assert torch.equal(a.grad, torch.outer(weight, x.detach()))
    assert torch.equal(x.grad, a.detach().t() @ weight)
    a, x = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 2), (2,)))
    assert torch.autograd.gradgradcheck(ops.matvec, (a, x))


@pytest.mark.parametrize(
    "a,x,error,message",
    [
        (torch.ones(2), torch.ones(2), ValueError, r"matvec: expected a with 2 dimensions, got shape \(2,\)"),
        (torch.ones(2, 3), torch.ones(3, 1), ValueError, r"matvec: expected x with 1 dimension, got shape \(3, 1\)"),
        (torch.ones(2, 3), torch.ones(2), ValueError, r"an element for each column of a.* got \(2, 3\) and \(2,\)"),
        (
            torch.ones(2, 2),
            torch.ones(2).half(),
            TypeError,
            "matvec: expected x of a's dtype torch.float32, got torch.float16",
        ),
        (torch.ones(2, 2), torch.ones(2, device="meta"), ValueError, "matvec: expected x on a's device cpu, got meta"),
    ],
)
def test_wrong_arguments(a, x, error, message):
    with pytest.raises(error, match=message):
        ops.matvec(a, x)
