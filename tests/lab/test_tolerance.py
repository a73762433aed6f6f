"""The tolerance: errors that it accepts, errors that it rejects, and its margin for random values."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwise.lab.verify import tolerance
from warpwise.lab.verify.tolerance import accumulator, bound, compare, growth

F32, F64, F16 = torch.float32, torch.float64, torch.float16
NAN, INF = math.nan, math.inf


def of(actual, reference, dtype=F32, terms=1, magnitude=None):
    reference = torch.tensor(reference, dtype=F64)
    scale = reference.abs() if magnitude is None else torch.tensor(magnitude, dtype=F64)
    return compare(torch.tensor(actual, dtype=dtype), reference, scale, terms, F32)


@pytest.mark.parametrize(
    "actual,expected,right",
    [
        (1.0, 1.0, True), (NAN, 1.0, False), (1.0, NAN, False), (NAN, NAN, True), (INF, INF, True), (-INF, INF, False),
        (INF, 1.0, False), (1.0, INF, False), (NAN, INF, False), (INF, NAN, False), (0.0, 0.0, True), (-0.0, 0.0, True),
        (1e-30, 0.0, False), (1e-45, 0.0, True), (INF, 1e39, True), (-INF, 1e39, False), (3.4028234e38, 1e39, False),
        (0.0, 1.1e-38, True), (0.0, 1e-36, False),
    ],
)  # fmt: skip
def test_special_values(actual, expected, right):
    assert of([actual], [expected]).right is right


def test_a_finite_reference_beyond_half_precision_is_infinity():
    assert of([INF], [70000.0], F16).right
    assert of([65504.0], [65519.0], F16).right
    assert not of([65504.0], [70000.0], F16).right


def test_one_rounding_of_the_output_is_allowed_and_two_ulp_of_half_are_not():
    assert of([1.0], [1 + 2**-11], F16).right
    assert not of([1.0], [1 + 2**-9], F16).right


def test_a_comparison_counts_and_points_at_the_first():
    found = of([[1.0, 2.0], [9.0, 8.0]], [[1.0, 2.0], [3.0, 4.0]])
    assert (found.wrong, found.total, found.index) == (2, 4, (1, 0))
    assert (found.expected, found.actual) == (3.0, 9.0)
    assert found.worst > 1
    assert not found.right


def test_the_largest_error_is_given_over_its_tolerance():
    reference, magnitude = torch.tensor([1.0], dtype=F64), torch.tensor([1.0], dtype=F64)
    allowed = float(bound(reference, magnitude, 1, F32, F32))
    found = compare(torch.tensor([1 + 2**-23]), reference, magnitude, 1, F32)
    assert found.worst == pytest.approx(2**-23 / allowed)


def test_chunks_are_put_together(monkeypatch):
    monkeypatch.setattr(tolerance, "CHUNK", 8)
    actual = torch.arange(30.0)
    actual[[9, 20]] = -1
    found = compare(actual.reshape(5, 6), torch.arange(30, dtype=F64).reshape(5, 6), None, 1, F32)
    assert (found.wrong, found.index, found.expected) == (2, (1, 3), 9.0)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool])
def test_integers_are_exact(dtype):
    values = torch.tensor([0, 1, 1, 0]).to(dtype)
    assert compare(values, values.clone(), None, 1000, F32).right
    assert compare(values, values.to(F64), None, 1000, F32).right
    other = values.clone()
    other[2] = 0
    found = compare(other, values, None, 1000, F32)
    assert (found.wrong, found.index) == (1, (2,))


def test_large_integers_are_not_compared_in_floating_point():
    big = torch.tensor([2**60 + 1])
    assert not compare(torch.tensor([2**60]), big, None, 1, F32).right


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"shape \(2,\), got \(3,\)"):
        compare(torch.zeros(2), torch.zeros(3, dtype=F64), None, 1, F32)


def test_half_inputs_do_not_excuse_half_sums():
    assert accumulator(F16, [F16, F16]) == F32
    assert accumulator(F32, [F32]) == F32
    assert accumulator(F64, [F64, torch.int64]) == F64
    assert accumulator(F64, [F32]) == F32


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_growth_is_monotone_and_below_the_certain_bound(first, second):
    low, high = sorted((first, second))
    assert growth(low) <= growth(high)
    assert growth(high) <= 16 + max(1, high)


@pytest.mark.parametrize("terms", [2, 33, 300, 4096])
@pytest.mark.parametrize("positive", [False, True])
def test_sums_in_order_stay_far_inside_and_half_sums_far_outside(terms, positive):
    """The slack on both sides is what keeps verify from ever failing by chance."""
    torch.manual_seed(terms)
    values = torch.rand(64, terms) if positive else torch.randn(64, terms)
    reference, magnitude = values.double().sum(1), values.double().abs().sum(1)
    total, half = torch.zeros(64), torch.zeros(64, dtype=F16)
    for column in range(terms):
        total += values[:, column]
        half += values[:, column].half()
    assert compare(total, reference, magnitude, terms, F32).worst < 0.5
    assert compare(half.float(), reference, magnitude, terms, F32).worst > 4
