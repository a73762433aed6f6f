"""Domains of points at the parameters of a fit: by mean-field inference, or by Gibbs sampling."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.apps.clustering.estimator import check_is_fitted
from warpwise.apps.clustering.field import MeanField
from warpwise.apps.clustering.graph import generator_on
from warpwise.apps.clustering.inputs import affine, graph_of
from warpwise.apps.clustering.kmeans import most_probable
from warpwise.apps.clustering.marginal import MarginalEmission, Missing
from warpwise.apps.clustering.smoothing import smooth
from warpwise.ops import gibbs_sweep
from warpwise.ops.potts_em_step.spec import softmax

_ITERATIONS = 20
_HOPS = 2  # over which the scores are smoothed to start, as features are for the starts of a fit


def inferred(estimator: Any, X: Any, structure: tuple[Any, Any, Any]) -> tuple[torch.Tensor, MeanField]:
    """The points X sorted by colour, (N,), and q of the points in that order after ``_ITERATIONS`` of updates.
    ``structure`` is (coords, graph, shape)."""
    check_is_fitted(estimator)
    features = estimator._features(X, reset=False).to(estimator._mean.device)
    neighbours = graph_of(features.shape[0], *structure, estimator._settings.n_neighbours, features.device)
    order, sorted_graph = neighbours.by_colour
    fitted = estimator._model
    emission = fitted.emission
    missing = features.isnan()[order]
    if estimator.missing == "marginalise" and bool(missing.any()):
        features = torch.where(features.isnan(), estimator._mean.to(features.dtype), features)
        emission = MarginalEmission(emission, Missing(missing, estimator._matrix))
    points, temper = estimator._smoothed(affine(features, estimator._mean, estimator._matrix, order), sorted_graph)
    external = estimator._external[:, None]
    if external.shape[0] > 1:
        same = external.shape[0] == order.numel()
        external = external[order] if same else points.new_zeros(1, 1, estimator._settings.n_domains)
    q = points.new_full((order.numel(), 1, estimator._settings.n_domains), 1 / estimator._settings.n_domains)
    model = MeanField(
        points, sorted_graph, q, emission, fitted.mix, fitted.beta, external, fitted.interaction, None, temper
    )
    # From uniform probabilities the prior "layers" would draw the first colour towards the middle layers. From each
    # point's own scores, small groups of points would keep the domain of their noise.
    start = smooth(sorted_graph, model.scores()[:, 0], _HOPS)[:, None]
    model.q = softmax(temper * start + external)
    for _ in range(_ITERATIONS):
        model.update_domains()
    return order, model


def sampled(model: MeanField, sweeps: int, burn_in: int, generator: torch.Generator) -> torch.Tensor:
    """(N, K): the fractions of ``sweeps`` of Gibbs sampling, after ``burn_in``, in which the points have each label.
    The chain starts at the most probable domains of ``model``."""
    scores = (model.temper * model.scores() + model.external)[:, 0].contiguous()
    n, device = len(scores), scores.device
    labels = most_probable(model.q[:, 0]).int()
    visits = torch.zeros(scores.shape, dtype=torch.int32, device=device)
    edges = (model.graph.rowptr, model.graph.columns, model.graph.weights_or_none)
    here = generator_on(device, generator)
    for sweep in range(burn_in + sweeps):
        draws = torch.rand(n, generator=here, dtype=torch.float32, device=here.device)
        counted = visits if sweep >= burn_in else None
        gibbs_sweep(scores, draws, labels, counted, *edges, model.beta[0], model.interaction, model.bounds)
    return visits.float() / sweeps


def unsorted(order: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """``values`` (N, ...) of the points ``order`` (N,), in the order of the points."""
    result = torch.empty_like(values)
    result[order] = values
    return result
