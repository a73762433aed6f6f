"""Principal components of features averaged over neighbours: what varies in space, without the noise of each point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sklearn.utils import check_array, check_random_state

from warpwise.apps.clustering.estimator import Estimator
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.inputs import graph_of
from warpwise.apps.clustering.smoothing import smooth

PERMUTATIONS = 5


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
    features = features[:, varies] / deviation[varies]
    values, vectors = _spectrum(built, features, hops)
    seed = check_random_state(random_state).randint(2**31 - 1)
    generator = torch.Generator().manual_seed(int(seed))
    noise = torch.stack([
        _spectrum(built, features[torch.randperm(len(features), generator=generator)], hops)[0][-1]
        for _ in range(PERMUTATIONS)
    ]).mean()  # fmt: skip
    count = max(1, int((values > noise).sum()))
    smoothed = smooth(built, features, hops)
    components = (smoothed - smoothed.mean(0)) @ vectors[:, -count:].flip(1)
    return Estimator._like(X, components.float())


def _spectrum(graph: Graph, features: torch.Tensor, hops: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Variances and directions of the principal components of smoothed features, the largest last."""
    smoothed = smooth(graph, features, hops)
    smoothed = smoothed - smoothed.mean(0)
    values, vectors = torch.linalg.eigh(smoothed.T @ smoothed / len(smoothed))
    largest = vectors.abs().argmax(0, keepdim=True)  # a sign that does not depend on the solver
    return values, vectors * vectors.gather(0, largest).sign()
