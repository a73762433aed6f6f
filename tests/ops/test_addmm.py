"""addmm beyond its cases: layouts, broadcasting, factors of zero, gradients, wrong arguments."""

from __future__ import annotations

import pytest
import torch

from warpwise import ops, registry
from warpwise.ops.addmm import _launch, rungs

ADDMM = registry.get("addmm")
RUNGS = [rung.name for rung in rungs.RUNGS if "cpu" in rung.devices]
SHAPES = [(40, 16), (16,), (1, 16), (40, 1), (1, 1), ()]


def integers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small integers: every partial sum is exact, so results must be equal and not merely close."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).to(dtype)


def dtype_of(rung: str) -> torch.dtype:
    """float32 where the rung takes it, else float16, in which sums of these few small integers are exact too."""
    taken = ADDMM.rung(rung).dtypes
    return torch.float32 if taken is None or torch.float32 in taken else torch.float16


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("a_turned", [False, True])
@pytest.mark.parametrize("b_turned", [False, True])
def test_transposed_factors_stay_where_they_lie(rung, a_turned, b_turned):
    dtype = dtype_of(rung)
    a = integers(24, 40, dtype=dtype).t() if a_turned else integers(40, 24, dtype=dtype)
    b = integers(16, 24, seed=1, dtype=dtype).t() if b_turned else integers(24, 16, seed=1, dtype=dtype)
    c = integers(16, 40, seed=2, dtype=dtype).t()
    assert torch.equal(ops.addmm(c, a, b, 2, -0.5, rung=rung), torch.addmm(c, a, b, beta=2, alpha=-0.5))


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_broadcasts(rung, shape):
    dtype = dtype_of(rung)
    a, b, c = (
        integers(40, 24, dtype=dtype),
        integers(24, 16, seed=1, dtype=dtype),
        integers(*shape, seed=2, dtype=dtype),
    )
    assert torch.equal(ops.addmm(c, a, b, beta=3, rung=rung), torch.addmm(c, a, b, beta=3))


@pytest.mark.parametrize("rung", RUNGS)
def test_beta_of_zero_reads_nothing(rung):
    dtype = dtype_of(rung)
    a, b = integers(8, 8, dtype=dtype), integers(8, 8, seed=1, dtype=dtype)
    c = torch.full((8, 8), float("nan"), dtype=dtype)
    assert torch.equal(ops.addmm(c, a, b, beta=0, alpha=2, rung=rung), 2 * (a @ b))


@pytest.mark.parametrize("rung", RUNGS)
def test_an_empty_sum_leaves_what_is_added(rung):
    dtype = dtype_of(rung)
    c = integers(8, dtype=dtype)
    y = ops.addmm(c, torch.empty(3, 0, dtype=dtype), torch.empty(0, 8, dtype=dtype), beta=2, rung=rung)
    assert torch.equal(y, (2 * c).expand(3, 8))


@pytest.mark.parametrize("shape", [(3, 4), (4,), (1, 4), (3, 1), ()])
@pytest.mark.parametrize("beta", [0.0, 1.5])
def test_gradients(shape, beta):
    torch.manual_seed(0)
    args = [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in (shape, (3, 5), (5, 4))]

    def added(input, a, b):
        return ops.addmm(input, a, b, beta, 0.5)

    assert torch.autograd.gradcheck(added, args, fast_mode=True)
    assert torch.autograd.gradgradcheck(added, args, fast_mode=True)


def test_autocast_takes_low_precision():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.addmm(torch.ones(2), torch.ones(3, 3), torch.ones(3, 2)).dtype == torch.bfloat16


def test_defaults():
    square = torch.empty(16, 16)
    factors = (1.0, 1.0)
    assert ADDMM.default(square, square, square, *factors) == "k02_triton_pass"
    assert ADDMM.default(*(square.half(),) * 3, *factors) == "k03_triton_tiled"
    assert ADDMM.default(*(square.double(),) * 3, *factors) is None


@pytest.mark.parametrize("arguments", ["false, true, true", "true, false, false"])
def test_warpgroups_compile_for_hopper_without_spills(arguments):
    compiled = _launch.WARPGROUPS[f"addmm_warpgroups<__half, {arguments}, false, 2>"].compile("sm_90")
    assert (compiled.spill_stores, compiled.stack) == (0, 0)


def test_warpgroups_say_what_they_take():
    rung = ADDMM.rung("k05")
    a, b = torch.empty(16, 8, dtype=torch.half), torch.empty(8, 24, dtype=torch.half)
    for shape in ((16, 24), (24,), (1, 24)):
        assert rung.limits(torch.empty(shape, dtype=torch.half), a, b, 1.0, 1.0) is None
    column = torch.empty(16, 1, dtype=torch.half)
    assert "takes an input that is a row, or a matrix" in rung.limits(column, a, b, 1.0, 1.0)
    assert rung.limits(column, a, b, 0.0, 1.0) is None, "nothing of it is read"


@pytest.mark.gpu
@pytest.mark.parametrize("a_turned", [False, True])
@pytest.mark.parametrize("b_turned", [False, True])
@pytest.mark.parametrize("added", [None, "row", "matrix"])
def test_warpgroups_in_every_layout(a_turned, b_turned, added):
    m, n, k = 1000, 520, 200
    a = integers(k, m).t() if a_turned else integers(m, k)
    b = integers(n, k, seed=1).t() if b_turned else integers(k, n, seed=1)
    c = integers(*((n,) if added == "row" else (m, n)), seed=2)
    c, a, b = (value.to("cuda", torch.bfloat16) for value in (c, a, b))
    beta = 2.0 if added else 0.0
    expected = ADDMM.spec.reference(c, a, b, beta, -0.5).to(torch.bfloat16)
    assert torch.equal(ops.addmm(c, a, b, beta, -0.5, rung="k05"), expected)


A, B = torch.ones(2, 3), torch.ones(3, 4)


@pytest.mark.parametrize(
    "args,error,message",
    [
        ((torch.ones(4), A, torch.ones(2, 4)), ValueError, r"addmm: expected b with as many rows .* got \(2, 3\) and \(2, 4\)"),
        ((torch.ones(3), A, B), ValueError, r"addmm: expected input to broadcast to \(2, 4\), got \(3,\)"),
        ((torch.ones(4, 1), A, B), ValueError, r"addmm: expected input to broadcast to \(2, 4\), got \(4, 1\)"),
        ((torch.ones(1, 2, 4), A, B), ValueError, "addmm: expected input with 0 or 1 or 2 dimensions"),
        ((torch.ones(4).half(), A, B), TypeError, "addmm: expected input of a's dtype torch.float32, got torch.float16"),
        ((torch.ones(4), A, B.to("meta")), ValueError, "addmm: expected b on a's device cpu, got meta"),
        ((torch.ones(4), A[0], B), ValueError, "addmm: expected a with 2 dimensions"),
    ],
)  # fmt: skip
def test_wrong_arguments(args, error, message):
    with pytest.raises(error, match=message):
        ops.addmm(*args)
