"""Probabilities and features in bfloat16, between the iterations of a fit on a GPU."""

from __future__ import annotations

import torch

from warpwise.apps.clustering.emission import Emission
from warpwise.apps.clustering.graph import Graph
from warpwise.operation import cdiv
from warpwise.ops.potts_em_step.rungs import rounding_features_pays, rounding_pays
from warpwise.ops.potts_em_step.spec import empty_rows
from warpwise.ops.potts_em_step.tiles import Shape

_MOST_INCREASE = 0.01  # of a covariance by rounded features
# Points times domains times tiles of 16 features from which a fit with rounded features takes less time: copies and
# `is_safe` take about 1 ms (measured on an H200). For up to 8 domains, and for more.
_LEAST_OF_FEW, _LEAST_WORK = 2**24, 2**22


def empty_q(X: torch.Tensor, graph: Graph, restarts: int, domains: int, rounds: bool) -> torch.Tensor:
    """(N, R, K) for q, not initialised: ``rounded_rows``, or float32 if there are none."""
    rows = rounded_rows(X, graph, restarts, domains, rounds)
    return X.new_empty(len(X), restarts, domains) if rows is None else rows


def rounded_rows(
    X: torch.Tensor,
    graph: Graph,
    restarts: int,
    domains: int,
    rounds: bool,
    interaction: torch.Tensor | None = None,
) -> torch.Tensor | None:
    """(N, R, K) bfloat16 in padded rows, not initialised; None if no kernel of the step takes that with X (N, D), or
    with X in bfloat16 if it ``rounds``."""
    if interaction is not None or not kernels_take(X, graph):
        return None
    pays = rounding_pays(*_sizes(X, graph, restarts, domains)) or (rounds and saves_time(X, graph, restarts, domains))
    return empty_rows(len(X), restarts, domains, X.device) if pays else None


def rounded_features(X: torch.Tensor, graph: Graph, restarts: int, domains: int) -> torch.Tensor | None:
    """X (N, D) in bfloat16, in padded rows; None unless that ``saves_time``."""
    if not saves_time(X, graph, restarts, domains):
        return None
    return empty_rows(len(X), 1, X.shape[1], X.device)[:, 0].copy_(X)


def saves_time(X: torch.Tensor, graph: Graph, restarts: int, domains: int) -> bool:
    """Whether a fit takes less time with X in bfloat16 than in float32, if that ``is_safe``."""
    work = len(X) * domains * cdiv(X.shape[1], 16)
    pays = work >= (_LEAST_OF_FEW if domains <= 8 else _LEAST_WORK)
    return pays and kernels_take(X, graph) and rounding_features_pays(*_sizes(X, graph, restarts, domains))


def kernels_take(X: torch.Tensor, graph: Graph) -> bool:
    return X.is_cuda and X.dtype == torch.float32 and graph.rowptr.dtype == torch.int32


def _sizes(X: torch.Tensor, graph: Graph, restarts: int, domains: int) -> tuple[Shape, int]:
    """The sizes of a step, and the number of colours that have points."""
    return Shape(len(X), restarts, domains, X.shape[1]), sum(count > 0 for count in graph.colour_counts)


def is_safe(emission: Emission) -> bool:
    """Whether rounding the features to bfloat16 adds at most 1 % to a tied covariance in any direction.

    A rounding error that is uniform within a unit in the last place has a variance of at most 2^-14 / 12 of the mean
    square of the feature. The trace of the inverse covariance times these variances is a bound of the increase.
    """
    scale, total = emission.scale.double().cpu(), emission.total.double().cpu()  # small
    variances = total.diagonal() * (2.0**-14 / 12 / emission.parallel.n_points)
    increase = (torch.linalg.inv_ex(scale).inverse.diagonal(dim1=1, dim2=2) * variances).sum(1)
    return bool((increase <= _MOST_INCREASE).all())
