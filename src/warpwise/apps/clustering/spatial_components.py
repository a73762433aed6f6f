"""Principal components of features averaged over neighbours: what varies in space, without the noise of each point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_array, check_random_state

from warpwise.apps.clustering.estimator import Estimator
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.inputs import graph_of
from warpwise.apps.clustering.smoothing import neighbour_sum, smooth

PERMUTATIONS = 5
_ITERATIONS = 10
_WIDTH, _OF_NOISE = 32, 8  # vectors of an iteration, for components and for the first component of permuted points
_OVERDISPERSION = 100.0


def spatial_components(
    X: Any,
    *,
    coords: Any = None,
    graph: Any = None,
    shape: Sequence[int] | None = None,
    hops: int = 2,
    n_neighbours: int = 12,
    random_state: Any = None,
) -> Any:
    """The principal components of X (N, F), standardised and averaged over ``hops`` hops: (N, n), float32.

    ``coords``, ``graph`` and ``shape`` are those of ``SpatialMixture.fit``; of coordinates the graph has
    ``n_neighbours`` neighbours. Parallel analysis (Horn 1965) chooses n, from 1 to F: components with more variance
    than the first one of points in random places, the mean over five permutations. Constant features are left out.
    Raises ``ValueError`` if all are constant. The result is of the kind of X, NumPy or torch.

    For thousands of features, such as genes, of which most are noise: their components are then the features of
    ``SpatialMixture`` or ``SmoothedKMeans``.
    """
    features = torch.as_tensor(check_array(X, dtype="float64", ensure_min_samples=2))
    if isinstance(hops, bool) or not isinstance(hops, int) or hops < 0:
        raise ValueError(f"spatial_components: expected hops as a number of at least 0, got {hops!r}")
    built = graph_of(len(features), coords, graph, shape, n_neighbours)
    features = features - features.mean(0)
    deviation = features.square().mean(0).sqrt()
    varies = deviation > 1e-12 * (1 + deviation.max())
    if not varies.any():
        raise ValueError("spatial_components: expected a feature that varies, got constant ones")
    features = (features[:, varies] / deviation[varies]).float()
    seed = check_random_state(random_state).randint(2**31 - 1)
    generator = torch.Generator().manual_seed(int(seed))
    orders = [torch.randperm(len(features), generator=generator) for _ in range(PERMUTATIONS)]
    noise = torch.stack([_spectrum(built, features, hops, _OF_NOISE, order)[0][-1] for order in orders]).mean()
    width = _WIDTH
    while True:
        values, vectors = _spectrum(built, features, hops, width)
        count = max(1, int((values > noise).sum()))
        if count < width or width >= features.shape[1]:
            break
        width *= 2
    components = smooth(built, features @ vectors[:, -count:].flip(1), hops)
    return Estimator._like(X, components - components.mean(0))


def count_features(counts: Any) -> np.ndarray:
    """Features (N, 3 G) float32 of ``counts`` (N, G) of molecules, dense or sparse, for ``spatial_components``.

    For each gene the logarithm and the square root of the counts, scaled to the median point, and the Pearson residual
    of a negative binomial with overdispersion 1/100, clipped at sqrt(N) (Lause et al. 2021). The three weigh rare and
    abundant molecules differently; their joint components depend less on the choice than those of one. Raises
    ``ValueError`` for negative or infinite counts.
    """
    dense = check_array(counts, accept_sparse=True, dtype="float64", ensure_min_samples=2)
    dense = dense.toarray() if hasattr(dense, "toarray") else dense
    if dense.min() < 0:
        raise ValueError(f"count_features: expected counts of at least 0, got {dense.min()}")
    total = dense.sum(1, keepdims=True)
    scaled = dense / np.maximum(total, 1) * np.median(total)
    expected = total * (dense.sum(0) / max(dense.sum(), 1))
    deviation = np.sqrt(expected + expected**2 / _OVERDISPERSION)
    residual = (dense - expected) / np.where(deviation > 0, deviation, 1)
    limit = len(dense) ** 0.5
    return np.hstack([np.log1p(scaled), np.sqrt(scaled), residual.clip(-limit, limit)]).astype(np.float32)


def _spectrum(
    graph: Graph, features: torch.Tensor, hops: int, width: int, order: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Variances and directions of the ``width`` first principal components of smoothed features, the largest last.

    ``order`` moves the points to other places. By subspace iteration: features (N, F) are multiplied by ``width``
    vectors, and only the products are smoothed.
    """
    width = min(width, *features.shape)
    scale = (1 / (1 + graph.degree))[:, None]

    def smoothed(directions: torch.Tensor) -> torch.Tensor:
        values = features @ directions
        values = smooth(graph, values if order is None else values[order], hops)
        return values - values.mean(0)

    vectors = torch.randn(features.shape[1], width, generator=torch.Generator().manual_seed(0))
    for _ in range(_ITERATIONS):
        values = smoothed(torch.linalg.qr(vectors)[0])
        for _ in range(hops):
            values = values * scale
            values = values + neighbour_sum(graph, values)
        if order is not None:
            values = torch.empty_like(values).index_copy_(0, order, values)
        vectors = (values.T @ features).T
    vectors = torch.linalg.qr(vectors)[0]
    values = smoothed(vectors).double()
    variances, rotation = torch.linalg.eigh(values.T @ values / len(values))
    vectors = vectors @ rotation.float()
    largest = vectors.abs().argmax(0, keepdim=True)  # a sign that does not depend on the solver
    return variances, vectors * vectors.gather(0, largest).sign()
