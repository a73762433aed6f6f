"""The public function kmeans_assign."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.kmeans_assign.rungs import RUNGS, default
from warpwise.ops.kmeans_assign.spec import SPEC

KMEANS_ASSIGN = register(Op(SPEC, RUNGS, default))
_kmeans_assign = KMEANS_ASSIGN.call


def kmeans_assign(
    X: torch.Tensor, centroids: torch.Tensor, return_distances: bool = False, *, rung: str | None = None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The nearest of ``centroids`` (K, D) for each point of ``X`` (N, D): labels (N,) int32, and distances or None.

    ``centroids`` (R, K, D) are those of R restarts; labels and distances are then (R, N).

    ``distances`` (N,), with ``return_distances``, are squared Euclidean distances. They are |x|² − 2 x·c + |c|², so
    their absolute error is that of the squared norms. Both tensors are floating-point of one dtype; K is at least 1.
    Not differentiable. ``rung`` names one kernel of the ladder (float32). Raises ``TypeError`` or ``ValueError`` that
    names the argument.
    """
    return _kmeans_assign(X, centroids, return_distances, rung=rung)
