"""addmm beyond its cases: layouts, broadcasting, beta and alpha of zero, gradients, wrong arguments."""

from __future__ import annotations

import pytest
import torch
from tests.ops.conftest import on_cpu

from warpwise import operation, ops
from warpwise.ops.addmm import rungs, tables

ADDMM = operation.get("addmm")
RUNGS = [rung.name for rung in rungs.RUNGS if on_cpu(rung)]
SHAPES = [(40, 16), (16,), (1, 16), (40, 1), (1, 1), ()]


def integers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small integers: every partial sum is exact, so results must be equal and not merely close."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).to(dtype)


def dtype_of(rung: str) -> torch.dtype:
    """float32 where the rung takes it, else float16, in which sums of these few small integers are exact too."""
    taken = ADDMM.rung(rung).dtypes
    return torch.float32 if taken is None or torch.float32 in taken else torch.float16


def computed(c, a, b, beta, alpha, rung) -> torch.Tensor:
    """addmm by a rung; the test is skipped if the rung does not take the arguments."""
    if reason := ADDMM.refusal(ADDMM.rung(rung), c, a, b, beta, alpha):
        pytest.skip(reason)
    return ops.addmm(c, a, b, beta, alpha, rung=rung)


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
def test_transposed_operands_are_read_in_place(rung, a_transposed, b_transposed):
    dtype = dtype_of(rung)
    a = integers(24, 40, dtype=dtype).t() if a_transposed else integers(40, 24, dtype=dtype)
    b = integers(16, 24, seed=1, dtype=dtype).t() if b_transposed else integers(24, 16, seed=1, dtype=dtype)
    c = integers(16, 40, seed=2, dtype=dtype).t()
    assert torch.equal(computed(c, a, b, 2, -0.5, rung), torch.addmm(c, a, b, beta=2, alpha=-0.5))


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_broadcasts(rung, shape):
    dtype = dtype_of(rung)
    a, b, c = (
        integers(40, 24, dtype=dtype),
        integers(24, 16, seed=1, dtype=dtype),
        integers(*shape, seed=2, dtype=dtype),
    )
    assert torch.equal(computed(c, a, b, 3, 1, rung), torch.addmm(c, a, b, beta=3))


@pytest.mark.parametrize("rung", RUNGS)
def test_beta_of_zero_reads_nothing(rung):
    dtype = dtype_of(rung)
    a, b = integers(8, 8, dtype=dtype), integers(8, 8, seed=1, dtype=dtype)
    c = torch.full((8, 8), float("nan"), dtype=dtype)
    assert torch.equal(ops.addmm(c, a, b, beta=0, alpha=2, rung=rung), 2 * (a @ b))


@pytest.mark.parametrize("rung", RUNGS)
def test_an_empty_sum_keeps_the_input(rung):
    dtype = dtype_of(rung)
    c = integers(8, dtype=dtype)
    y = computed(c, torch.empty(3, 0, dtype=dtype), torch.empty(0, 8, dtype=dtype), 2, 1, rung)
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


def test_kinds_of_arguments_that_tables_distinguish():
    c, a, b = torch.empty(16, 24), torch.empty(16, 8), torch.empty(8, 24)
    assert ADDMM.default(c, a, b, 1.0, 1.0) == "k01_triton_pass", "the first that runs on a CPU, of one SM"
    for name, arrangement in tables.ARRANGEMENTS.items():
        args = arrangement(c, a, b, 1.0, 1.0)
        ADDMM.spec.check(*args)
        assert tables.describe(*args) == (name, {"m": 16, "n": 24, "k": 8})
    assert tables.describe(c, a, b, 0.0, 1.0)[0] == "nn nothing"
    assert tables.describe(c[:, :1], a, b, 1.0, 1.0)[0] == "nn column"
    assert tables.describe(torch.empty(()), a, b, 1.0, 1.0)[0] == "nn number"


A, B = torch.ones(2, 3), torch.ones(3, 4)


@pytest.mark.parametrize(
    "args,error,message",
    [
        (
            (torch.ones(4), A, torch.ones(2, 4)),
            ValueError,
            r"addmm: expected b with as many rows .* got \(2, 3\) and \(2, 4\)",
        ),
        ((torch.ones(3), A, B), ValueError, r"addmm: expected input to broadcast to \(2, 4\), got \(3,\)"),
        ((torch.ones(4, 1), A, B), ValueError, r"addmm: expected input to broadcast to \(2, 4\), got \(4, 1\)"),
        ((torch.ones(1, 2, 4), A, B), ValueError, "addmm: expected input with 0 or 1 or 2 dimensions"),
        (
            (torch.ones(4).half(), A, B),
            TypeError,
            "addmm: expected input of a's dtype torch.float32, got torch.float16",
        ),
        ((torch.ones(4), A, B.to("meta")), ValueError, "addmm: expected b on a's device cpu, got meta"),
        ((torch.ones(4), A[0], B), ValueError, "addmm: expected a with 2 dimensions"),
        ((torch.ones(4), A, B, None), TypeError, "addmm: expected beta to be a real number, got NoneType"),
        ((torch.ones(4), A, B, 1.0, "2"), TypeError, "addmm: expected alpha to be a real number, got str"),
    ],
)
def test_wrong_arguments(args, error, message):
    with pytest.raises(error, match=message):
        ops.addmm(*args)
