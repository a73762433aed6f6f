"""The public function gibbs_sweep."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from warpwise.arguments.checks import listed
from warpwise.operation import Op, register
from warpwise.ops.gibbs_sweep.rungs import RUNGS, default
from warpwise.ops.gibbs_sweep.spec import SPEC

GIBBS_SWEEP = register(Op(SPEC, RUNGS, default))
_gibbs_sweep = GIBBS_SWEEP.call

Optional = torch.Tensor | None


def gibbs_sweep(
    scores: torch.Tensor,
    draws: torch.Tensor,
    labels: torch.Tensor,
    visits: Optional,
    rowptr: torch.Tensor,
    columns: torch.Tensor,
    weights: Optional,
    beta: torch.Tensor,
    interaction: Optional,
    bounds: Sequence[int],
    *,
    rung: str | None = None,
) -> None:
    """Draw the labels of points ``bounds[0]`` to ``bounds[-1]``, one part after another, from their distributions given
    the labels of their neighbours:  p(z_i = k) ∝ exp(scores_ik + beta sum_j w_ij V(z_j, k)).

    ``labels`` (N,) int32 are replaced. ``visits`` (N, K) int32 or None: the element of each new label is incremented;
    over many sweeps they estimate the marginal probabilities. ``scores`` are (N, K). ``draws`` (N,) in [0, 1) select
    the labels by the cumulative probabilities. No two points of a part, ``bounds[c]`` to ``bounds[c + 1]``, may be
    neighbours. ``rowptr`` (N + 1,) and ``columns`` (E,), int32 or int64, and ``weights`` (E,), or None for ones, are
    the graph in compressed sparse rows. ``beta`` is (), and V = ``interaction`` (K, K), or None for the identity.

    Floating-point tensors have the dtype of ``scores``. Not differentiable. ``rung`` names one kernel of the ladder
    (float32 and a graph of int32). Raises ``TypeError`` or ``ValueError`` that names the argument. The contents of
    the graph and of the labels are not checked.
    """
    ends = tuple(listed("gibbs_sweep", "bounds", bounds, "integers"))
    _gibbs_sweep(scores, draws, labels, visits, rowptr, columns, weights, beta, interaction, ends, rung=rung)
