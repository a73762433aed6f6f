"""The public function kmeans_update."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.kmeans_update.rungs import RUNGS, default
from warpwise.ops.kmeans_update.spec import SPEC

KMEANS_UPDATE = register(Op(SPEC, RUNGS, default))
_kmeans_update = KMEANS_UPDATE.call


def kmeans_update(
    X: torch.Tensor, labels: torch.Tensor, n_clusters: int, *, rung: str | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of the points ``X`` (N, D) of each label, (K, D), and their number, (K,) int32; K is ``n_clusters``.

    ``labels`` (N,) are int32 or int64 in [0, K), or (R, N) for R restarts, with sums (R, K, D) and counts (R, K); the
    range is not checked, because this would synchronise. ``X`` and the sums are floating-point. Not differentiable.
    ``rung`` names one kernel of the ladder (float32 and int32); the sums of k01 may differ between runs by rounding.
    Raises ``TypeError`` or ``ValueError`` that names the argument.
    """
    return _kmeans_update(X, labels, n_clusters, rung=rung)
