"""Medians with distribution-free confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

EXACT = 500  # samples up to which the binomial distribution is exact; above, the normal approximation is used
Z = 1.959963984540054  # the normal distribution's 97.5th percentile


@dataclass(frozen=True)
class Interval:
    """A median and its 95 % interval; the extremes for fewer than six samples, which cannot have that coverage."""

    median: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width as a fraction of the median."""
        return (self.high - self.low) / 2 / self.median if self.median > 0 else math.inf


@lru_cache(maxsize=4096)
def rank(count: int) -> int:
    """The number of samples to leave out at each end so that the rest covers the median with 95 % probability.

    The number of samples below the true median is binomial with p = 1/2, so that the interval from the k-th smallest to
    the k-th largest misses it with probability 2 P(B < k). Returns k - 1, the index of the lower end.
    """
    if count > EXACT:
        return max(0, math.floor((count - 1 - Z * math.sqrt(count)) / 2))
    below, index = 0.0, -1
    while index + 1 < count:
        below += math.comb(count, index + 1) / 2**count
        if 2 * below > 0.05:
            break
        index += 1
    return max(0, index)


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle. Raises ``ValueError`` if empty."""
    if not values:
        raise ValueError("median: expected at least one value, got none")
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def interval(values: Sequence[float]) -> Interval:
    """The median of ``values`` and its 95 % interval from order statistics."""
    ordered, aside = sorted(values), rank(len(values))
    return Interval(median(values), ordered[aside], ordered[len(ordered) - 1 - aside])


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Interval:
    """The median over rounds of ``numerator[i] / denominator[i]``, each pair timed in one round, with its 95 %
    interval.

    Both times of a pair were measured under the same conditions, so drift cancels. NaN marks a missing time. Raises
    ``ValueError`` if no round has both.
    """
    pairs = [
        above / below
        for above, below in zip(numerator, denominator, strict=False)
        if not math.isnan(above) and not math.isnan(below)
    ]
    if not pairs:
        raise ValueError("ratio: expected at least one round with a sample of both, got none")
    return interval(pairs)
