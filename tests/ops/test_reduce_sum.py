"""reduce_sum beyond its cases: every dimension, alignment, exactness, what is not finite, and repeatability."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples

from warpwise import operation, ops

FEW = settings(max_examples=examples(12), deadline=None)
RUNGS = [rung.name for rung in operation.get("reduce_sum").rungs if "adjacent" not in rung.name]  # columns alone


@pytest.mark.parametrize("rung", [name for name in RUNGS if "short" not in name])
def test_half_precision_is_accumulated_in_float32(rung):
    """A float16 accumulator stops at 2048, where adding 1 no longer changes it."""
    ones = torch.ones(6000, dtype=torch.float16)
    assert ops.reduce_sum(ones, rung=rung).item() == 6000.0


@pytest.mark.parametrize("rung", RUNGS)
def test_every_dimension(rung):
    x = torch.arange(2 * 3 * 4, dtype=torch.float32).view(2, 3, 4)
    assert ops.reduce_sum(x, rung=rung).item() == 276.0
    for dim in range(-3, 3):
        assert torch.equal(ops.reduce_sum(x, dim, rung=rung), x.sum(dim))
    assert ops.reduce_sum(torch.tensor(7.0), 0, rung=rung).item() == 7.0


@pytest.mark.parametrize("rung", RUNGS)
def test_an_empty_sum_is_zero(rung):
    assert ops.reduce_sum(torch.empty(0), rung=rung).item() == 0.0
    assert torch.equal(ops.reduce_sum(torch.empty(3, 0), 1, rung=rung), torch.zeros(3))
    assert ops.reduce_sum(torch.empty(0, 4), 1, rung=rung).shape == (0,)


@pytest.mark.parametrize("rung", RUNGS)
def test_infinity_and_nan_stay(rung):
    columns = 100 if "short" in rung else 300
    x = torch.ones(3, columns)
    x[0, columns - 1], x[1, columns // 2] = float("inf"), float("nan")
    assert ops.reduce_sum(x, 1, rung=rung).isfinite().tolist() == [False, False, True]
    assert ops.reduce_sum(x, 1, rung=rung)[0].item() == float("inf")


@FEW
@given(rows=st.integers(1, 6), columns=st.integers(1, 3000), shift=st.integers(0, 9), half=st.booleans())
def test_two_passes_at_any_length_and_alignment(rows, columns, shift, half):
    """Small integers, whose sums are exact whatever the order; rows of odd length start at every alignment."""
    values = (torch.arange(rows * columns + shift) % 3 - 1).to(torch.bfloat16 if half else torch.float32)
    x = values[shift:].view(rows, columns)
    assert torch.equal(ops.reduce_sum(x, -1, rung="k06"), x.sum(-1))


@FEW
@given(
    outer=st.integers(1, 3), length=st.integers(0, 90), words=st.integers(1, 140), half=st.booleans(),
    shift=st.integers(0, 3),
)  # fmt: skip
def test_adjacent_columns_of_any_length_and_alignment(outer, length, words, half, shift):
    inner = words * 2
    values = torch.arange(outer * length * inner + shift) % 5 - 2
    x = values.to(torch.bfloat16 if half else torch.float32)[shift:].view(outer, length, inner)
    assert torch.equal(ops.reduce_sum(x, 1, rung="k12"), x.sum(1))
    if length:
        assert torch.equal(ops.reduce_sum(x[0], 0, rung="k12"), x[0].sum(0))


def test_adjacent_columns_are_whole_words():
    for x, dim, message in (
        (torch.ones(3, 300), 1, "takes a dimension other than the last"),
        (torch.ones(3, 301), 0, "multiple of 8 bytes apart, not 1204"),
        (torch.ones(3, 301, dtype=torch.bfloat16), 0, "multiple of 4 bytes apart, not 602"),
        (torch.ones(7), None, "takes a dimension other than the last"),
    ):
        with pytest.raises(ValueError, match=message):
            ops.reduce_sum(x, dim, rung="k12")


def test_two_passes_repeat_bit_by_bit():
    x = torch.randn(20001, generator=torch.Generator().manual_seed(0))
    results = {ops.reduce_sum(x, rung="k06").item() for _ in range(3)}
    assert len(results) == 1


def test_the_gradient_keeps_the_shape_alone():
    """The input is not saved: it may be overwritten, and its memory is free after the forward."""
    x = torch.randn(3, 4, requires_grad=True)
    value = x * 2
    total = ops.reduce_sum(value, 1)
    value.detach_()
    value.zero_()
    total.sum().backward()
    assert torch.equal(x.grad, torch.full((3, 4), 2.0))


def test_the_gradient_is_one_everywhere():
    x = torch.randn(3, 4, requires_grad=True)
    ops.reduce_sum(x).backward()
    assert torch.equal(x.grad, torch.ones(3, 4))
    x.grad = None
    (ops.reduce_sum(x, 0) * torch.arange(4.0)).sum().backward()
    assert torch.equal(x.grad, torch.arange(4.0).expand(3, 4))


@pytest.mark.parametrize(
    "call,error,message",
    [
        (lambda: ops.reduce_sum(torch.ones(2, 2), 2), ValueError, "reduce_sum: expected dim between -2 and 1, got 2"),
        (lambda: ops.reduce_sum(torch.ones(2), "0"), TypeError, "reduce_sum: expected dim to be an int, got str"),
        (
            lambda: ops.reduce_sum(torch.ones(2).long()),
            TypeError,
            "reduce_sum: expected input of dtype .* got torch.int64",
        ),
        (lambda: ops.reduce_sum([1.0]), TypeError, "reduce_sum: expected input to be a torch.Tensor, got list"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
