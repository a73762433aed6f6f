"""Start values: k-means on smoothed features, short EM runs from each, and the one of the best bound."""

from __future__ import annotations

import torch

from warpwise.apps.clustering.emission import Emission
from warpwise.apps.clustering.field import MeanField
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.kmeans import inertia, kmeans, one_hot
from warpwise.apps.clustering.smoothing import smooth
from warpwise.ops.potts_em_step.spec import softmax

HOPS = (0, 1, 2, 4)  # of smoothing before k-means
_ELEMENTS = 1 << 25  # of an array (N, R, max(K, C)): more restarts run one batch after another


def best_start(
    X: torch.Tensor,
    graph: Graph,
    n_domains: int,
    n_types: int | None,
    n_init: int,
    beta: float,
    generator: torch.Generator,
    temper: float = 1.0,
    iterations: int = 10,
) -> MeanField:
    """One fit: of ``n_init`` starts, ``iterations`` of EM each at the fixed ``beta``, that of the highest ELBO."""
    n = X.shape[0]
    types = None if n_types is None else _types(X, n_types, generator)
    features = X if types is None else types.sqrt()
    labels = _labels(features, graph, n_domains, n_init, 0 if types is None else 1, generator)
    batch = max(1, _ELEMENTS // (n * max(n_domains, n_types or 0)))
    best: MeanField | None = None
    highest = -torch.inf
    for first in range(0, labels.shape[1], batch):
        part = labels[:, first : first + batch]
        q = one_hot(part, n_domains)
        restarts = part.shape[1]
        mix = None
        if types is None:
            emission = Emission("tied", X, q)
        else:
            emission = Emission("tied", X, types[:, None].expand(-1, restarts, -1))
            mix = torch.einsum("nrk,nc->rkc", q, types) + 1e-2
            mix = mix / mix.sum(2, keepdim=True)
        q = 0.9 * q + 0.1 / n_domains
        model = MeanField(
            X,
            graph,
            q,
            emission,
            mix,
            X.new_full((restarts,), beta),
            X.new_zeros(1, 1, n_domains),
            temper=temper,
        )
        model.run(iterations)
        bounds = model.elbo()
        index = int(bounds.argmax())
        if best is None or float(bounds[index]) > highest:
            highest = float(bounds[index])
            best = select(model, index)
    assert best is not None
    return best


def select(model: MeanField, index: int) -> MeanField:
    """The fit ``index`` of ``model`` alone."""
    emission = model.emission
    emission.mean, emission.scale = emission.mean[index : index + 1], emission.scale[index : index + 1]
    mix = None if model.mix is None else model.mix[index : index + 1]
    q = model.q[:, index : index + 1].contiguous()
    beta = model.beta[index : index + 1]
    return MeanField(model.X, model.graph, q, emission, mix, beta, model.external, temper=model.temper)


def _labels(
    X: torch.Tensor, graph: Graph, k: int, n_init: int, more_hops: int, generator: torch.Generator
) -> torch.Tensor:
    """(N, n_init): labels of k-means on X smoothed over each of ``HOPS`` in turn."""
    found = []
    for place, hops in enumerate(HOPS):
        restarts = len(range(place, n_init, len(HOPS)))
        if restarts:
            found.append(kmeans(smooth(graph, X, hops + more_hops), k, restarts, generator))
    return torch.cat(found, 1)


def _types(X: torch.Tensor, n_types: int, generator: torch.Generator) -> torch.Tensor:
    """(N, n_types): probabilities of the types of a Gaussian mixture without neighbours, from the best of 4 k-means."""
    labels = kmeans(X, n_types, 4, generator)
    best = min(range(4), key=lambda start: inertia(X, labels[:, start], n_types))
    q = one_hot(labels[:, best], n_types)[:, None]
    emission = Emission("tied", X, q)
    for _ in range(10):
        q = softmax(emission.scores(X) + q.mean(0).clamp(min=1e-6).log())
        emission.update(X, q)
    return q[:, 0]
