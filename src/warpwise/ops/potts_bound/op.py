"""The public function potts_bound."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.potts_bound.rungs import RUNGS, default
from warpwise.ops.potts_bound.spec import SPEC

POTTS_BOUND = register(Op(SPEC, RUNGS, default))
_potts_bound = POTTS_BOUND.call

Optional = torch.Tensor | None


def potts_bound(
    q: torch.Tensor,
    rowptr: torch.Tensor,
    columns: torch.Tensor,
    weights: Optional,
    beta: torch.Tensor,
    external: torch.Tensor,
    interaction: Optional,
    points: int | None = None,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """(R,) float64: sum_i [sum_k -q_ik log q_ik + q_i · (external_i + beta / 2 sum_j w_ij V q_j)] of R fits.

    Its sum with the expected log-likelihood of the points is the evidence lower bound of mean-field EM without log
    Z(beta). ``q`` (N, R, K) are probabilities of domains. ``rowptr`` (N + 1,) and ``columns`` (E,), int32 or int64, and
    ``weights`` (E,), or None for ones, are the graph in compressed sparse rows. ``beta`` is (R,), ``external`` (1 or N,
    1 or R, K), and V = ``interaction`` (K, K), or None for the identity. The sum is over the first ``points`` points,
    or all.

    Floating-point tensors have the dtype of ``q``, which may be bfloat16 where the others are float32, in rows that are
    padded as ``potts_em_step`` takes them. Not differentiable. ``rung`` names one kernel of the ladder
    (float32 and int32). Raises ``TypeError`` or ``ValueError`` that names the argument. The contents of the graph are
    not checked.
    """
    count = len(q) if points is None else points
    return _potts_bound(q, rowptr, columns, weights, beta, external, interaction, count, rung=rung)
