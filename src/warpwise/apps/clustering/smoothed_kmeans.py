"""k-means on features averaged over neighbours: the fast mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpwise.apps.clustering.estimator import Estimator, check_count, check_distinct, check_flag
from warpwise.apps.clustering.inputs import affine, graph_of, whitening
from warpwise.apps.clustering.kmeans import kmeans
from warpwise.apps.clustering.smoothing import smooth


class SmoothedKMeans(Estimator):
    """k-means with ``n_domains`` clusters on features averaged ``hops`` times over each point and its neighbours.

    Features are whitened by the covariance of the differences of neighbours first, unless ``whiten`` is False. The best
    of ``n_init`` k-means++ starts, by inertia, is kept. ``fit(X, coords= | graph= | shape=)`` takes the arguments of
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

    def fit(
        self, X: Any, y: Any = None, *, coords: Any = None, graph: Any = None, shape: Sequence[int] | None = None
    ) -> SmoothedKMeans:
        """Cluster X (N, D); ``y`` is ignored. Without coords, graph and shape there is no smoothing."""
        features = self._features(X, reset=True)
        k = check_count("n_domains", self.n_domains, 1)
        check_distinct(features, k, "n_domains")
        count = check_count("n_neighbours", self.n_neighbours, 1)
        graph_here = graph_of(features.shape[0], coords, graph, shape, count, features.device)
        mean, matrix = whitening(features, graph_here, whiten=check_flag("whiten", self.whiten))
        points = smooth(graph_here, affine(features, mean, matrix), check_count("hops", self.hops, 0))
        starts = check_count("n_init", self.n_init, 1)
        labels, scores = kmeans(points, k, starts, self._generator(), iterations=100)
        best = int(scores.argmin())
        self.labels_ = self._like(X, labels[best].long())
        self.inertia_ = float(scores[best])
        return self
