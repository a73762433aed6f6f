"""The public function connected_components."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.connected_components.rungs import RUNGS, default
from warpwise.ops.connected_components.spec import SPEC

CONNECTED_COMPONENTS = register(Op(SPEC, RUNGS, default))
_connected_components = CONNECTED_COMPONENTS.call


def connected_components(
    labels: torch.Tensor, rowptr: torch.Tensor, columns: torch.Tensor, *, rung: str | None = None
) -> torch.Tensor:
    """(N,) int32: the smallest index of a point that each point is connected with, by edges between equal ``labels``.

    ``labels`` are (N,) int32. ``rowptr`` (N + 1,) and ``columns`` (E,), int32 or int64, are the graph in compressed
    sparse rows, with both directions of each edge. The result is the same for any order of the threads. Not
    differentiable. ``rung`` names one kernel of the ladder (a graph of int32). Raises ``TypeError`` or ``ValueError``
    that names the argument. The contents of the graph are not checked.
    """
    return _connected_components(labels, rowptr, columns, rung=rung)
