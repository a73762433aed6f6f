"""The tolerance of each element, and the comparison of a result with its float64 reference.

The bound on ``|out - ref|`` of an output element that is a sum of ``n`` terms is::

    u_out * |ref|  +  u_acc * (16 + min(n, 6 * sqrt(n))) * magnitude  +  n * tiny_acc  +  quantum_out / 2

``u`` is the unit roundoff (half of ``eps``) of the output's dtype and of the dtype that is accumulated in: float64 if
inputs and outputs are float64, float32 otherwise, so half-precision inputs do not excuse half-precision sums.

- ``u_out * |ref|`` is the rounding of the result to the output's dtype.
- The error of a sum of ``n`` terms in any order is at most ``(n - 1) * u * magnitude``, where ``magnitude`` is the sum
  of the absolute values of the terms. If rounding errors are independent with mean zero, it is below ``t * sqrt(n) * u
  * magnitude`` with probability ``1 - 2 * exp(-t**2 / 2)`` (Higham and Mary, "A new approach to probabilistic rounding
  error analysis", 2019). This assumes that each rounding error is ``u`` and each partial sum equals the magnitude. The
  standard deviation of a rounding error is below ``u / 2``, and the root mean square of the partial sums of terms with
  equal signs is ``magnitude / sqrt(3)``, so ``t = 6`` is 20 standard deviations. This covers the truncating sums of
  tensor cores, whose errors have a mean other than zero. Below 36 terms the first bound is the smaller one.
- ``16`` covers the operations around the sum: the product in each term, a division, and elementary functions. The
  errors of CUDA's fast versions (``__expf``, ``ex2.approx``) are 2 to 4 ulp, 4 to 8 ``u``, near the middle of their
  range. An operation that amplifies errors more (``exp`` of a long difference) includes this in its ``magnitude``.
- ``tiny_acc`` is the smallest normal number: a kernel may flush each smaller term to zero. Half of the smallest
  subnormal number of the output's dtype is the rounding of a result in that range.

Integers and booleans must be equal. Where the reference is NaN or infinity, the result must be NaN or the same
infinity. Where the reference is finite but rounds to infinity in the output's dtype, infinity is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from warpwise.lab.verify.verdict import number

AROUND_THE_SUM = 16.0
DEVIATIONS = 6.0
CHUNK = 1 << 24


@dataclass(frozen=True)
class OutputComparison:
    """One output compared with the reference: ``worst`` is the largest ratio of an error to its tolerance."""

    wrong: int
    total: int
    worst: float
    index: tuple[int, ...] | None = None
    expected: float | bool | None = None
    actual: float | bool | None = None
    tolerance: float = 0.0
    reason: str = ""  # from a checker, or for a wrong shape; elements are not compared then

    @property
    def right(self) -> bool:
        return self.wrong == 0

    def described(self, name: str, what: str = "") -> str:
        """``output[0, 5] is 1, expected 2 ± 1e-06``, with ``what`` in place of "is 1"; or the reason."""
        if self.index is None:
            return f"{name} {self.reason}"
        allowed = f" ± {self.tolerance:.3g}" if self.tolerance else ""
        found = what or f"is {number(self.actual)}"
        return f"{name}{list(self.index)} {found}, expected {number(self.expected)}{allowed}"

    @property
    def counted(self) -> str:
        """``3 of 2,800 elements are wrong``."""
        return f"{self.wrong:,} of {self.total:,} elements {'is' if self.wrong == 1 else 'are'} wrong"


def rejected(reason: str | None, total: int) -> OutputComparison:
    """The comparison of an output as a whole: right without a ``reason``, else wrong because of it."""
    return OutputComparison(0, total, 0.0) if reason is None else OutputComparison(1, total, math.inf, reason=reason)


def growth(terms: int) -> float:
    """The bound on the rounding error of a sum of ``terms`` terms, in units of ``u * magnitude``."""
    count = max(1, terms)
    return AROUND_THE_SUM + min(float(count), DEVIATIONS * math.sqrt(count))


def accumulator(output: torch.dtype, inputs: Sequence[torch.dtype]) -> torch.dtype:
    """The dtype that a kernel must accumulate in: float64 if inputs and output are float64, else float32."""
    floating = [dtype for dtype in inputs if dtype.is_floating_point]
    return (
        torch.float64
        if output == torch.float64 and all(dtype == torch.float64 for dtype in floating)
        else torch.float32
    )


def bound(
    reference: torch.Tensor, magnitude: torch.Tensor, terms: int, output: torch.dtype, accumulate: torch.dtype
) -> torch.Tensor:
    """The tolerance of each element, float64, of the shape of ``reference``; see the docstring of the module."""
    out, acc = torch.finfo(output), torch.finfo(accumulate)
    floor = max(1, terms) * acc.tiny + out.tiny * out.eps / 2
    return out.eps / 2 * reference.abs() + acc.eps / 2 * growth(terms) * magnitude + floor


def compare(
    actual: torch.Tensor, reference: torch.Tensor, magnitude: torch.Tensor | None, terms: int, accumulate: torch.dtype
) -> OutputComparison:
    """Compare ``actual`` with ``reference`` of the same shape; ``magnitude`` is not used for integers."""
    if actual.shape != reference.shape:
        raise ValueError(f"expected a reference of shape {tuple(actual.shape)}, got {tuple(reference.shape)}")
    flat, truth = actual.reshape(-1), reference.reshape(-1)
    scale = None if magnitude is None else magnitude.reshape(-1)
    wrong, worst, first = 0, 0.0, None
    for start in range(0, flat.numel(), CHUNK):
        part = slice(start, start + CHUNK)
        if actual.dtype.is_floating_point:
            size = truth[part].abs() if scale is None else scale[part]
            good, ratio, tolerance = _floating(flat[part], truth[part], size, terms, accumulate)
            worst = max(worst, ratio)
        else:
            good, tolerance = _exact(flat[part], truth[part]), None
        missed = good.numel() - int(good.sum())
        if missed and first is None:
            at = int((~good).nonzero()[0])
            first = (start + at, 0.0 if tolerance is None else float(tolerance[at]))
        wrong += missed
    if first is None:
        return OutputComparison(0, flat.numel(), worst)
    at, allowed = first
    index = tuple(int(axis) for axis in torch.unravel_index(torch.tensor(at), actual.shape))
    return OutputComparison(
        wrong, flat.numel(), worst if worst else math.inf, index, truth[at].item(), flat[at].item(), allowed
    )


def _floating(
    actual: torch.Tensor, reference: torch.Tensor, magnitude: torch.Tensor, terms: int, accumulate: torch.dtype
) -> tuple[torch.Tensor, float, torch.Tensor]:
    """Return which elements are right, the largest ratio of a finite error to its tolerance, and the tolerances."""
    limits, output = torch.finfo(actual.dtype), actual.dtype
    got, truth = actual.to(torch.float64), reference.to(torch.float64)
    tolerance = bound(truth, magnitude, terms, output, accumulate)
    error = (got - truth).abs()
    usual = error.isfinite() & tolerance.isfinite()
    good = usual & (error <= tolerance)
    special = ~truth.isfinite()
    good |= special & ((got == truth) | (got.isnan() & truth.isnan()))
    rounds_to_infinity = truth.isfinite() & (truth.abs() + tolerance >= limits.max * (1 + limits.eps / 4))
    good |= rounds_to_infinity & got.isinf() & (got.sign() == truth.sign())
    ratio = torch.where(usual, error / tolerance, torch.zeros_like(error))
    return good, float(ratio.max()) if ratio.numel() else 0.0, tolerance


def _exact(actual: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Compare integers of any width. A floating-point reference must represent the integers exactly."""
    if reference.dtype == actual.dtype:
        return actual == reference
    if reference.dtype.is_floating_point:
        return actual.to(torch.float64) == reference.to(torch.float64)
    return actual.to(torch.int64) == reference.to(torch.int64)
