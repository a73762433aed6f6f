"""Medians, their intervals and ratios, on numbers that are known."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwise.lab.timing import stats


@pytest.mark.parametrize("count,index", [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (20, 5), (30, 9), (100, 39)])
def test_the_rank_is_that_of_the_tables(count, index):
    """The rank is that of Conover, Practical Nonparametric Statistics, table of the 95 % interval of the median.

    1st of 6, 6th of 20, 10th of 30, 40th of 100.
    """
    assert stats.rank(count) == index


@settings(deadline=None)
@given(st.integers(6, 2000))
def test_the_interval_covers_95_percent_and_no_narrower_one_does(count):
    index = stats.rank(count)
    missed = 2 * sum(math.comb(count, below) for below in range(index + 1)) / 2**count
    assert missed <= 0.0505
    assert missed + 2 * math.comb(count, index + 1) / 2**count > 0.0495


def test_intervals_cover_the_true_median_19_times_in_20():
    """Of skewed samples with a median of 1: the interval assumes no distribution."""
    drawn, covered = random.Random(7), 0
    for _ in range(1000):
        found = stats.interval([math.exp(drawn.gauss(0, 0.5)) for _ in range(31)])
        covered += found.low <= 1 <= found.high
    assert 930 <= covered <= 990


def test_an_interval_of_few_samples_is_their_range():
    assert stats.interval([3.0, 1.0, 2.0]) == stats.Interval(2.0, 1.0, 3.0)


def test_outliers_do_not_move_the_median():
    assert stats.interval([1.0] * 30 + [50.0] * 3).median == 1.0
    assert stats.median([1.0, 2.0]) == 1.5
    with pytest.raises(ValueError, match="at least one value"):
        stats.median([])


def test_half_width_is_relative():
    assert stats.Interval(2.0, 1.9, 2.1).half_width == pytest.approx(0.05)
    assert stats.Interval(0.0, 0.0, 0.0).half_width == math.inf


def test_drift_cancels_in_a_ratio_of_pairs():
    drift = [1 + 0.5 * math.sin(step / 9) for step in range(100)]
    slow, fast = [3 * value for value in drift], [2 * value for value in drift]
    found = stats.ratio(slow, fast)
    assert found.median == pytest.approx(1.5)
    assert found.high - found.low < 1e-9


def test_rounds_with_one_side_missing_do_not_count():
    assert stats.ratio([2.0, math.nan, 8.0, 2.0], [1.0, 1.0, math.nan, 1.0]) == stats.Interval(2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="at least one round"):
        stats.ratio([math.nan, 1.0], [1.0, math.nan])
