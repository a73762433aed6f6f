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
# The least points * max(domains, 8) * ceil(features / 16) for which rounding the features shortens a fit: below it, the
# copy and the check take longer than they save.
_LEAST_WORK = 2**22


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
    sizes = _sizes(X, graph, restarts, domains)
    pays = rounding_pays(*sizes) or (rounds and rounding_features_pays(*sizes))
    return empty_rows(len(X), restarts, domains, X.device) if pays else None


def in_bfloat16(X: torch.Tensor) -> torch.Tensor:
    """X (N, D) in bfloat16, in padded rows."""
    return empty_rows(len(X), 1, X.shape[1], X.device)[:, 0].copy_(X)


def saves_time(X: torch.Tensor, graph: Graph, domains: int, points: int) -> bool:
    """Whether a fit takes less time with X in bfloat16 than in float32, if ``RoundingCheck`` allows that. ``points``:
    of a process, the same number in each."""
    work = points * max(domains, 8) * cdiv(X.shape[1], 16)
    return work >= _LEAST_WORK and kernels_take(X, graph) and rounding_features_pays(*_sizes(X, graph, 1, domains))


def kernels_take(X: torch.Tensor, graph: Graph) -> bool:
    return X.is_cuda and X.dtype == torch.float32 and graph.rowptr.dtype == torch.int32


def _sizes(X: torch.Tensor, graph: Graph, restarts: int, domains: int) -> tuple[Shape, int]:
    """The sizes of a step, and the number of colours that have points."""
    return Shape(len(X), restarts, domains, X.shape[1]), sum(count > 0 for count in graph.colour_counts)


class RoundingCheck:
    """Whether rounding the features to bfloat16 adds at most 1 % to the tied covariance of ``emission`` in any
    direction. The constructor starts an asynchronous copy of the matrices to the host; ``passes`` waits for it.

    A rounding error that is uniform within a unit in the last place has a variance of at most 2^-14 / 12 of the mean
    square of the feature. The trace of the inverse covariance times these variances is a bound of the increase.
    """

    def __init__(self, emission: Emission) -> None:
        scale = emission.scale
        matrices = torch.cat([scale, emission.total[None].to(scale.dtype)])
        self._points, self._copied = emission.parallel.n_points, None
        self._matrices = torch.empty(matrices.shape, dtype=matrices.dtype, pin_memory=matrices.is_cuda)
        self._matrices.copy_(matrices, non_blocking=True)
        if matrices.is_cuda:
            self._copied = torch.cuda.Event()
            self._copied.record(torch.cuda.current_stream(matrices.device))

    def passes(self) -> bool:
        if self._copied is not None:
            self._copied.synchronize()
        *scales, total = self._matrices.double()
        variances = total.diagonal() * (2.0**-14 / 12 / self._points)
        increase = (torch.linalg.inv_ex(torch.stack(scales)).inverse.diagonal(dim1=1, dim2=2) * variances).sum(1)
        return bool((increase <= _MOST_INCREASE).all())
