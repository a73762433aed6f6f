"""Softmax beyond its cases: infinities and NaN in every rung, every dimension, limits, and second derivatives."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples

from warpwise import operation, ops
from warpwise.operation import assume_sm_count

FEW = settings(max_examples=examples(12), deadline=None)
INF, NAN = float("inf"), float("nan")
FORWARD = [rung.name for rung in operation.get("softmax").rungs]
BACKWARD = [rung.name for rung in operation.get("softmax_backward").rungs]


def of_rows(rows, rung):
    """Softmax of each row, or of each column of the transpose by a rung that does not take adjacent elements."""
    softmax = operation.get("softmax")
    if softmax.rung(rung).limits(rows, -1):
        return ops.softmax(rows.t().contiguous(), 0, rung=rung).t()
    return ops.softmax(rows, rung=rung)


@pytest.mark.parametrize("rung", FORWARD)
def test_infinities_and_nan_are_pytorchs(rung):
    """A row of only -inf, or with NaN or +inf anywhere, is NaN; beside a finite element -inf gives 0."""
    rows = torch.zeros(6, 70)
    rows[0] = -INF
    rows[1, :69] = -INF
    rows[2, ::2] = -INF
    rows[3, 5] = NAN
    rows[4, 64] = INF
    rows[5, :64], rows[5, 3] = -INF, NAN
    expected = torch.softmax(rows, -1)
    assert expected[[0, 3, 4, 5]].isnan().all()
    torch.testing.assert_close(of_rows(rows, rung), expected, equal_nan=True)


@pytest.mark.parametrize(
    "rung", [name for name in FORWARD if not any(kind in name for kind in ("row_in", "triton_row", "short", "shared"))]
)
def test_a_finite_element_after_masked_ones(rung):
    """Online statistics begin with many blocks of -inf, before the first finite element."""
    row = torch.full((1, 9001), -INF)
    row[0, -1], row[0, 8999], row[0, 4000] = 3.0, 1e4, -2.0
    torch.testing.assert_close(ops.softmax(row, rung=rung), torch.softmax(row, -1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rung", FORWARD)
def test_large_values_do_not_overflow(rung, dtype):
    rows = torch.tensor([[1e4, 1e4, -1e4, 0.0]], dtype=dtype).expand(8, 4).contiguous()
    assert of_rows(rows, rung).tolist() == 8 * [[0.5, 0.5, 0.0, 0.0]]


@FEW
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    place=st.integers(-4, 3),
    rung=st.sampled_from(["k02_block_per_row", "k05_row_in_registers"]),
)
def test_any_dimension(shape, place, rung):
    dim = place % len(shape) - (len(shape) if place < 0 else 0)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    y = ops.softmax(x, dim, rung=rung)
    torch.testing.assert_close(y, torch.softmax(x, dim))
    torch.testing.assert_close(
        ops.softmax_backward(x, y, dim, rung="k03_row_in_registers"), y * (x - (x * y).sum(dim, keepdim=True))
    )


def test_a_dim_of_another_type_is_an_error_also_after_a_call():
    """True == 1 == 1.0: a cached plan for dim 1 is not used for the others."""
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ops.softmax(x, 1), torch.softmax(x, 1))
    for dim in (1.0, True):
        with pytest.raises(TypeError, match="softmax: expected dim to be an int"):
            ops.softmax(x, dim)


def test_no_dimensions():
    x = torch.tensor(3.0)
    for dim in (0, -1):
        assert ops.softmax(x, dim).item() == 1.0
        assert ops.softmax(x, dim, rung="k05").item() == 1.0
        assert ops.softmax_backward(x, torch.tensor(1.0), dim, rung="k02").item() == 0.0


@pytest.mark.parametrize("columns", [32767, 32768])
def test_the_longest_row_in_registers(columns):
    x = torch.randn(1, columns, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ops.softmax(x, rung="k05"), torch.softmax(x, -1), rtol=1e-5, atol=0)


def test_rows_too_long_for_a_rung_are_refused_and_have_another():
    long = torch.empty(1, 32769)
    with pytest.raises(ValueError, match="k05_row_in_registers takes rows of up to 32768 elements .* not 32769"):
        ops.softmax(long, rung="k05")
    with pytest.raises(ValueError, match="k07_triton_row takes rows of up to 65536 elements"):
        ops.softmax(torch.empty(1, 65537), rung="k07")
    with pytest.raises(ValueError, match="k03_row_in_registers takes rows of up to 16384"):
        ops.softmax_backward(long, long, rung="k03")
    forward, backward = operation.get("softmax"), operation.get("softmax_backward")
    for op, args in ((forward, (long[:, 1:], -1)), (forward, (long, -1)), (backward, (long, long, -1))):
        assert op.unsupported(op.rung(op.default(*args)), *args) is None
    assert forward.default(long.double(), -1) is None


@pytest.mark.parametrize("rung", [name for name in BACKWARD if name != "k05_triton_row"])
def test_a_constant_gradient_gives_none(rung):
    """Softmax does not change when every element of a row rises alike: the gradient of a sum over the row is 0."""
    columns = 100 if "short" in rung else 200
    y = torch.softmax(torch.randn(3, columns, generator=torch.Generator().manual_seed(0)), -1)
    gradient = ops.softmax_backward(torch.ones(3, columns), y, -1, rung=rung)
    assert gradient.abs().max() < 1e-7


def test_third_derivatives():
    x = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def third(function):
        (first,) = torch.autograd.grad((function(x, 0) ** 3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), x, create_graph=True)
        return torch.autograd.grad((second**2).sum(), x)[0]

    torch.testing.assert_close(third(ops.softmax), third(torch.softmax))


def test_autocast_computes_in_float32():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.softmax(torch.ones(2, 3, dtype=torch.bfloat16)).dtype == torch.float32


@pytest.mark.parametrize(
    "call,error,message",
    [
        (lambda x: ops.softmax(x, 2), ValueError, "softmax: expected dim between -2 and 1, got 2"),
        (lambda x: ops.softmax(x, -3), ValueError, "softmax: expected dim between -2 and 1, got -3"),
        (lambda x: ops.softmax(x, 1.0), TypeError, "softmax: expected dim to be an int, got float"),
        (lambda x: ops.softmax(x, True), TypeError, "softmax: expected dim to be an int, got bool"),
        (lambda x: ops.softmax(x.int()), TypeError, "softmax: expected input of dtype .* got torch.int32"),
        (
            lambda x: ops.softmax_backward(x, x[:1]),
            ValueError,
            "softmax_backward: expected output of grad_output's shape",
        ),
        (
            lambda x: ops.softmax_backward(x, x.half()),
            TypeError,
            "expected output of grad_output's dtype torch.float32",
        ),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.zeros(2, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_thread_has_four_of_many_short_columns(length, dtype):
    _short_columns(torch.device("cpu"), (2, length, 8192), (length, 16392), dtype, processors=1)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [2, 4])
def test_many_short_columns_on_a_gpu(length, dtype):
    _short_columns(torch.device("cuda"), (5, length, 200_000), (length, 1_000_000), dtype)


def _short_columns(device, *shapes_and_dtype, processors=None):
    *shapes, dtype = shapes_and_dtype
    generator = torch.Generator(device).manual_seed(0)
    tolerance = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 2e-2, "rtol": 2e-2}
    for shape in shapes:
        x, gradient = (torch.randn(shape, generator=generator, device=device).to(dtype) for _ in range(2))
        with assume_sm_count(processors) if processors else nullcontext():
            y = ops.softmax(x, -2, rung="k09")
            dx = ops.softmax_backward(gradient, y, -2, rung="k07")
        torch.testing.assert_close(y.float(), torch.softmax(x.float(), -2), **tolerance)
        expected = torch._softmax_backward_data(gradient.float(), y.float(), -2, torch.float32)
        torch.testing.assert_close(dx.float(), expected, **tolerance)
