"""The public function smooth_features."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.smooth_features.rungs import RUNGS, default
from warpwise.ops.smooth_features.spec import SPEC

SMOOTH_FEATURES = register(Op(SPEC, RUNGS, default))
_smooth_features = SMOOTH_FEATURES.call


def smooth_features(
    values: torch.Tensor,
    rowptr: torch.Tensor,
    columns: torch.Tensor,
    weights: torch.Tensor | None,
    scale: torch.Tensor,
    hops: int = 1,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """Repeat v_i = ``scale``_i (v_i + sum_j w_ij v_j), over the neighbours j of each point i, ``hops`` times: (N, F).

    ``values`` is (N, F). ``rowptr`` (N + 1,) and ``columns`` (E,), int32 or int64, and ``weights`` (E,), or None for
    ones, are the graph in compressed sparse rows. With ``scale`` (N,) = 1 / (1 + sum_j w_ij) the result is the weighted
    mean of each point and its neighbours. Floating-point tensors have the dtype of ``values``; ``hops`` is at least 1.
    Not differentiable. ``rung`` names one kernel of the ladder (float32 and int32). Raises ``TypeError`` or
    ``ValueError`` that names the argument. The contents of the graph are not checked.
    """
    return _smooth_features(values, rowptr, columns, weights, scale, hops, rung=rung)
