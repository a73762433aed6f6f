"""Missing features: densities of the observed features alone, and an EM step that integrates the others out.

Let L = Sigma^-1 be the precision of a class, and let the rows of B be the directions in which the missing features of
a point move it. With G = I - B^T (B L B^T)^-1 B L the marginal density of a residual r is that of r^T L G r, the
expected residual is G r, and the covariance of the missing part is B^T (B L B^T)^-1 B.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

from warpwise.apps.clustering.emission import DEGREES_OF_FREEDOM, RIDGE, Emission
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.smoothing import neighbour_sum

_ELEMENTS = 1 << 22  # of the matrices of a batch of points
_SINGULAR = 1e-10  # added to B L B^T, whose rows may be dependent or zero
_ROUNDS = 8  # hops over which missing values are filled


def filled(X: torch.Tensor, missing: torch.Tensor, graph: Graph) -> torch.Tensor:
    """X (N, D) with missing values replaced by the mean of the neighbours' values, or of the feature if no neighbour
    has one.

    The starts and the metric use these values; the fit integrates them out. Raises ``ValueError`` if a feature has no
    value.
    """
    known = ~missing
    count = known.sum(0)
    if not bool(count.all()):
        raise ValueError(f"X: expected a value in every feature, got none in feature {int(count.argmin())}")
    values = torch.where(missing, 0, X)
    means = values.sum(0) / count
    for _ in range(_ROUNDS):
        if bool(known.all()):
            return values
        weight = neighbour_sum(graph, known.to(X.dtype))
        near = neighbour_sum(graph, values)
        found = ~known & (weight > 0)
        values = torch.where(found, near / weight, values)
        known = known | found
    return torch.where(known, values, means)


class _Batch(NamedTuple):
    """Points (n,) of P patterns: the ``pattern`` (n,) of each, ``directions`` B (P, D, D') and ``observed`` (P, D)."""

    points: torch.Tensor
    pattern: torch.Tensor
    directions: torch.Tensor
    observed: torch.Tensor


class Missing:
    """Which features of each point are missing.

    ``missing`` (N, D) is bool. ``matrix`` (D, D') maps features to the coordinates of the fit; its rows are the
    directions in which they move a point.
    """

    def __init__(self, missing: torch.Tensor, matrix: torch.Tensor) -> None:
        self.patterns, self.index = torch.unique(missing, dim=0, return_inverse=True)
        self.order = torch.argsort(self.index, stable=True)
        norms = matrix.norm(dim=1, keepdim=True)
        self.rows = torch.where(norms > 0, matrix / norms, 0)

    def batches(self) -> Iterator[_Batch]:
        """All points in batches; the points of one pattern are together."""
        features, d = self.rows.shape
        for points in self.order.split(max(1, _ELEMENTS // (features * max(features, d)))):
            found, pattern = torch.unique_consecutive(self.index[points], return_inverse=True)
            absent = self.patterns[found]
            yield _Batch(points, pattern, absent[..., None] * self.rows, ~absent)


class MarginalEmission(Emission):
    """The classes of one fit, ``emission`` (R = 1), given the observed features of each point."""

    def __init__(self, emission: Emission, missing: Missing) -> None:
        self.covariance, self.mean, self.scale = emission.covariance, emission.mean, emission.scale
        self.distance: torch.Tensor | None = None
        self.missing = missing

    @property
    def linear(self) -> bool:
        return False

    def common(self, X: torch.Tensor) -> torch.Tensor:
        return torch.zeros(1, dtype=torch.float32, device=X.device)

    def _covariances(self) -> list[torch.Tensor]:
        """The covariance of each class, (D', D') float64; the same object for all classes if they share it."""
        classes = self.mean.shape[1]
        scale = self.scale[0].double()
        if self.covariance in ("tied", "t"):
            return [scale] * classes
        return list(torch.diag_embed(scale) if self.covariance == "diag" else scale)

    def scores(self, X: torch.Tensor) -> torch.Tensor:
        """(N, 1, C): the log-density of the observed features of each point, up to a constant for their units."""
        result = X.new_empty(len(X), 1, self.mean.shape[1])
        self.distance = torch.empty_like(result)
        covariances = self._covariances()
        nu = DEGREES_OF_FREEDOM
        for batch in self.missing.batches():
            width = (X.shape[1] - (~batch.observed).sum(1)).clamp(min=0).to(X.dtype)[batch.pattern]
            for c, covariance in enumerate(covariances):
                if c == 0 or covariance is not covariances[c - 1]:
                    kept, _, halves = _conditional(batch, covariance)
                    metric = (torch.linalg.inv(covariance) @ kept).to(X.dtype)[batch.pattern]
                    constant = halves.to(X.dtype)[batch.pattern]
                residual = X[batch.points] - self.mean[0, c]
                distance = (residual[:, None] @ metric @ residual[..., None])[:, 0, 0].clamp(min=0)
                self.distance[batch.points, 0, c] = distance
                if self.covariance == "t":
                    half = torch.lgamma((nu + width) / 2) - math.lgamma(nu / 2) - width / 2 * math.log(nu * math.pi)
                    score = half + constant - (nu + width) / 2 * torch.log1p(distance / nu)
                else:
                    score = constant - width / 2 * math.log(2 * math.pi) - distance / 2
                result[batch.points, 0, c] = score
        return result

    def update(self, X: torch.Tensor, responsibilities: torch.Tensor) -> None:
        """The M step, with the expected values and the covariances of the missing features."""
        n, classes, d = len(X), self.mean.shape[1], X.shape[1]
        covariances = self._covariances()
        counts = X.new_zeros(classes, dtype=torch.float64)
        sums = counts.new_zeros(classes, d)
        scatters = counts.new_zeros(classes, d, d)
        total = responsibilities[:, 0].double().sum(0)
        for batch in self.missing.batches():
            width = (d - (~batch.observed).sum(1)).clamp(min=0).to(X.dtype)[batch.pattern]
            for c, covariance in enumerate(covariances):
                if c == 0 or covariance is not covariances[c - 1]:
                    kept, spread, _ = _conditional(batch, covariance)
                    project = kept.to(X.dtype)[batch.pattern]
                weights = responsibilities[batch.points, 0, c]
                patterns = spread.new_zeros(len(spread)).index_add_(0, batch.pattern, weights.double())
                if self.covariance == "t" and self.distance is not None:
                    nu = DEGREES_OF_FREEDOM
                    weights = weights * (nu + width) / (nu + self.distance[batch.points, 0, c])
                expected = (project @ (X[batch.points] - self.mean[0, c])[..., None])[..., 0]
                counts[c] += weights.double().sum()
                sums[c] += (weights @ expected).double()
                scatters[c] += (expected.T @ (expected * weights[:, None])).double()
                scatters[c] += (patterns @ spread.flatten(1)).view(d, d)
        held = counts > 1e-3
        step = torch.where(held[:, None], sums / counts.clamp(min=1e-3)[:, None], 0)
        self.mean = self.mean + step.to(X.dtype)
        scatters = scatters - counts[:, None, None] * step[:, :, None] * step[:, None]
        ridge = RIDGE * torch.eye(d, device=X.device, dtype=torch.float64)
        tied = scatters.sum(0) / n + ridge
        if self.covariance in ("tied", "t"):
            found = tied[None]
        elif self.covariance == "diag":
            spreads = scatters.diagonal(dim1=1, dim2=2) + (d + 1) * tied.diagonal()
            found = (spreads / (total[:, None] + d + 1) + RIDGE)[None]
        else:
            found = ((scatters + (d + 1) * tied) / (total[:, None, None] + d + 1) + ridge)[None]
        self.scale = (found if found.dim() == 3 and self.covariance == "diag" else (found + found.mT) / 2).to(X.dtype)


def _conditional(batch: _Batch, covariance: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """By pattern: G (P, D', D'), the covariance of the missing part (P, D', D'), log(|L| / |B L B^T|) / 2 (P,)."""
    precision = torch.linalg.inv(covariance)
    B = batch.directions
    within = B @ precision @ B.mT
    within = within + torch.diag_embed(batch.observed.to(within.dtype) + _SINGULAR)
    spread = B.mT @ torch.linalg.solve(within, B)
    kept = torch.eye(len(precision), device=B.device, dtype=B.dtype) - spread @ precision
    halves = (torch.linalg.slogdet(precision)[1] - torch.linalg.slogdet(within)[1]) / 2
    return kept, spread, halves
