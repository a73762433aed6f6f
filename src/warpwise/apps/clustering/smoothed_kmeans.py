"""k-means on features averaged over neighbours: the fast mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from warpwise.apps.clustering.estimator import Estimator, all_or_nothing, check_count, check_distinct, check_flag
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.inputs import affine, graph_of, whitening
from warpwise.apps.clustering.kmeans import kmeans
from warpwise.apps.clustering.smoothing import smooth, width_of_parts
from warpwise.apps.clustering.threads import with_threads


class SmoothedKMeans(Estimator):
    """k-means with ``n_domains`` clusters on features averaged ``hops`` times over each point and its neighbours.

    Features are whitened by the covariance of the differences of neighbours first, unless ``whiten`` is False. The best
    of ``n_init`` k-means++ starts, by inertia, is kept; with more than 65,536 points the starts run on a sample, and
    the best continues on all points. ``fit(X, coords= | graph= | shape=)`` takes the arguments of
    ``SpatialMixture.fit`` and raises its errors; ``device`` is as there. Attributes: ``labels_`` (N,), ``inertia_``,
    ``n_features_in_``.
    """

    def __init__(
        self,
        n_domains: int = 2,
        hops: int = 2,
        n_init: int = 8,
        whiten: bool = True,
        n_neighbours: int = 8,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.n_domains = n_domains
        self.hops = hops
        self.n_init = n_init
        self.whiten = whiten
        self.n_neighbours = n_neighbours
        self.random_state = random_state
        self.device = device

    @with_threads
    @all_or_nothing
    def fit(
        self, X: Any, y: Any = None, *, coords: Any = None, graph: Any = None, shape: Sequence[int] | None = None
    ) -> SmoothedKMeans:
        """Cluster X (N, D); ``y`` is ignored. Without coords, graph and shape there is no smoothing."""
        features = self._features(X, reset=True)
        k = check_count("n_domains", self.n_domains, 1)
        check_distinct(features, k, "n_domains")
        count = check_count("n_neighbours", self.n_neighbours, 1)
        graph_here = graph_of(features.shape[0], coords, graph, shape, count, features.device)
        mean, matrix, _ = whitening(features, graph_here, whiten=check_flag("whiten", self.whiten))
        points = smoothed(graph_here, features, mean, matrix, check_count("hops", self.hops, 0))
        starts = check_count("n_init", self.n_init, 1)
        labels, score = kmeans(points, k, starts, self._generator(), iterations=100)
        self.labels_ = self._like(X, labels.long())
        self.inertia_ = float(score)
        return self


def smoothed(graph: Graph, features: torch.Tensor, mean: torch.Tensor, matrix: torch.Tensor, hops: int) -> torch.Tensor:
    """(N, D'): (features - mean) @ matrix after ``hops`` of smoothing. On a GPU half of the columns at a time, so that
    twice their memory is used."""
    parts = []
    for columns in matrix.split(width_of_parts(matrix.shape[1], features.device), 1):
        part = affine(features, mean, columns)
        for _ in range(hops):
            part = smooth(graph, part, 1)
        parts.append(part)
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)
