"""Principal components of features averaged over neighbours: variation in space, with less noise of single points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_array, check_random_state

from warpwise.apps.clustering.estimator import Estimator, as_tensor, check_count
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.inputs import graph_of
from warpwise.apps.clustering.smoothing import neighbour_sum, smooth
from warpwise.apps.clustering.threads import at_most

PERMUTATIONS = 12
# Steps of the subspace iteration from random vectors, and from the vectors of another permutation.
_ITERATIONS, _FURTHER = 10, 2
_WIDTH = 32  # vectors of an iteration for the components, at least
_OF_NOISE = 8  # vectors of an iteration for the first component of permuted points
_OVERDISPERSION = 100.0
_ELEMENTS = 1 << 24  # of X for each thread: its products with a few vectors then take longer than a wait for a core
_ROWS = 256  # points whose counts are transformed at a time


def spatial_components(
    X: Any,
    *,
    coords: Any = None,
    graph: Any = None,
    shape: Sequence[int] | None = None,
    hops: int = 2,
    n_neighbours: int = 12,
    min_components: int = 1,
    random_state: Any = None,
) -> Any:
    """The principal components of X (N, F), standardised and averaged over ``hops`` hops: (N, n), float32.

    ``coords``, ``graph`` and ``shape`` are those of ``SpatialMixture.fit``; with ``coords`` the graph has
    ``n_neighbours`` neighbours. Parallel analysis (Horn 1965) chooses n, from 1 to F: the components with more variance
    than the first component of points in random places (mean over twelve permutations), and at least
    ``min_components``, because the means of K domains differ in up to K - 1 directions. Constant features are left out.
    ``random_state`` is an int, a ``numpy.random.RandomState`` or ``Generator``, or None. Raises ``ValueError`` for NaN
    or infinite values, and if all features are constant. The result is of the kind of X, NumPy or torch.

    Use it for thousands of features that are mostly noise, such as genes; pass the components to ``SpatialMixture`` or
    ``SmoothedKMeans``.
    """
    checked = check_array(X, dtype=["float64", "float32"], ensure_min_samples=2, ensure_all_finite=False)
    if count := int((~np.isfinite(checked)).any(1).sum()):
        raise ValueError(f"spatial_components: X contains NaN or infinity in {count:,} of {len(checked):,} points")
    hops, n_neighbours = check_count("hops", hops, 0), check_count("n_neighbours", n_neighbours, 1)
    least = check_count("min_components", min_components, 1)
    if isinstance(random_state, np.random.Generator):
        seed = int(random_state.integers(2**31 - 1))
    else:
        seed = int(check_random_state(random_state).randint(2**31 - 1))
    with at_most(max(1, checked.size // _ELEMENTS)):
        built = graph_of(len(checked), coords, graph, shape, n_neighbours)
        return Estimator._like(X, _components(as_tensor(checked), built, hops, least, seed))


def _components(features: torch.Tensor, graph: Graph, hops: int, least: int, seed: int) -> torch.Tensor:
    """(N, n), at least ``least`` components of ``features`` (N, F)."""
    features = features - features.mean(0, dtype=torch.float64).to(features.dtype)
    deviation = torch.linalg.vector_norm(features, dim=0, dtype=torch.float64) / len(features) ** 0.5
    varies = deviation > 1e-12 * (1 + deviation.max())
    if not varies.any():
        raise ValueError("spatial_components: expected a feature that varies, got constant ones")
    features = features if bool(varies.all()) else features[:, varies]
    features = (features / deviation[varies].to(features.dtype)).float()
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(features), generator=generator) for _ in range(PERMUTATIONS)]
    largest, vectors = [], None
    for order in orders:  # the directions of one permutation are near those of the next
        values, vectors = _spectrum(graph, features, hops, _OF_NOISE, order, vectors)
        largest.append(values[-1])
    noise = torch.stack(largest).mean()
    width = max(_WIDTH, least + 1)
    while True:
        values, vectors = _spectrum(graph, features, hops, width)
        count = min(max(least, int((values > noise).sum())), len(values))
        if count < width or width >= features.shape[1]:
            break
        width *= 2
    components = smooth(graph, features @ vectors[:, -count:].flip(1), hops)
    return components - components.mean(0)


def count_features(counts: Any) -> np.ndarray:
    """Features (N, 3 G) float32 of ``counts`` (N, G) of molecules, dense or sparse, for ``spatial_components``.

    For each gene the logarithm and the square root of the counts, scaled to the median point, and the Pearson residual
    of a negative binomial with overdispersion 1/100, clipped at sqrt(N) (Lause et al. 2021). The three weigh rare and
    abundant molecules differently; components of all three depend less on this choice than components of one. Raises
    ``ValueError`` for negative or infinite counts.
    """
    dense = check_array(counts, accept_sparse=True, dtype=[np.float32, np.float64], ensure_min_samples=2)
    dense = dense.toarray() if hasattr(dense, "toarray") else dense
    if dense.min() < 0:
        raise ValueError(f"count_features: expected counts of at least 0, got {dense.min()}")
    total = dense.sum(1, keepdims=True, dtype=np.float64)
    share = dense.sum(0, dtype=np.float64) / max(total.sum(), 1)
    scale = np.median(total) / np.maximum(total, 1)
    points, genes = dense.shape
    limit = points**0.5
    result = np.empty((points, 3 * genes), np.float32)
    for begin in range(0, points, _ROWS):
        rows = slice(begin, begin + _ROWS)
        scaled = dense[rows] * scale[rows].astype(dense.dtype)
        np.log1p(scaled, out=result[rows, :genes], casting="same_kind")
        np.sqrt(scaled, out=result[rows, genes : 2 * genes], casting="same_kind")
        expected = (total[rows] * share).astype(dense.dtype)
        deviation = np.sqrt(expected + expected**2 / _OVERDISPERSION)
        residual = (dense[rows] - expected) / np.where(deviation > 0, deviation, 1)
        result[rows, 2 * genes :] = residual.clip(-limit, limit)
    return result


def _spectrum(
    graph: Graph,
    features: torch.Tensor,
    hops: int,
    width: int,
    order: torch.Tensor | None = None,
    vectors: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Variances and directions of the first ``width`` principal components of smoothed features, in ascending order.

    ``order`` permutes the places of the points; ``vectors`` (F, ``width``), if given, are initial directions. Subspace
    iteration multiplies the features (N, F) by ``width`` vectors and smooths only the products.
    """
    width = min(width, *features.shape)
    scale = (1 / (1 + graph.degree))[:, None]

    def smoothed(directions: torch.Tensor) -> torch.Tensor:
        values = features @ directions
        values = smooth(graph, values if order is None else values[order], hops)
        return values - values.mean(0)

    iterations = _ITERATIONS if vectors is None else _FURTHER
    if vectors is None:
        start = torch.Generator().manual_seed(0)
        vectors = torch.randn(features.shape[1], width, generator=start, dtype=torch.float32)
    for _ in range(iterations):
        values = smoothed(_orthonormal(vectors))
        for _ in range(hops):
            values = values * scale
            values = values + neighbour_sum(graph, values)
        if order is not None:
            values = torch.empty_like(values).index_copy_(0, order, values)
        vectors = (values.T @ features).T
    vectors = _orthonormal(vectors)
    values = smoothed(vectors).double()
    variances, rotation = torch.linalg.eigh(values.T @ values / len(values))
    vectors = vectors @ rotation.float()
    largest = vectors.abs().argmax(0, keepdim=True)  # a sign that does not depend on the solver
    return variances, vectors * vectors.gather(0, largest).sign()


def _orthonormal(vectors: torch.Tensor) -> torch.Tensor:
    """An orthonormal basis of the columns of ``vectors``. One thread: LAPACK's threads wait for one another in each of
    many short operations, which takes many times longer than the operations if other programs use the cores."""
    with at_most(1):
        return torch.linalg.qr(vectors)[0]
