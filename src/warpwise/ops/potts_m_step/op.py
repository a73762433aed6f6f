"""The public function potts_m_step."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.potts_m_step.rungs import RUNGS, default
from warpwise.ops.potts_m_step.spec import SPEC

POTTS_M_STEP = register(Op(SPEC, RUNGS, default))
_potts_m_step = POTTS_M_STEP.call

Optional = torch.Tensor | None


def potts_m_step(
    counts: torch.Tensor,
    sums: torch.Tensor,
    total: torch.Tensor,
    previous: torch.Tensor,
    n_points: int,
    ridge: float = 0.0,
    derivatives: Optional = None,
    beta: Optional = None,
    highest_beta: float = 0.0,
    *,
    rung: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Optional]:
    """The M step after ``potts_em_step``, of R mixtures of K Gaussians with one covariance each.

    ``counts`` (R, K) = sum_i q_i and ``sums`` (R, K, D) = sum_i q_i x_i are the moments of ``n_points`` points, and
    ``total`` (D, D) = sum_i x_i x_i^T. ``previous`` (R, K, D) are the means of domains with a count of at most 0.001.

    Returns (mean, scale, linear, constant, likelihood, new_beta):
    ``mean`` (R, K, D) = sums / counts; ``scale`` (R, D, D) = (total - sum_k counts_k mean_k mean_k^T) / n_points +
    ``ridge`` * identity; ``linear`` (R, K, D) = mean scale^-1 and ``constant`` (R, K) = -linear · mean / 2, with which
    x · linear_k + constant_k is log N(x; mean_k, scale) up to a term that does not depend on k; ``likelihood`` (R,)
    float64 = sum_ik q_ik log N(x_i; mean_k, scale).
    ``new_beta`` (R,), None without ``derivatives`` (2, R) and ``beta`` (R,), is a Newton step from ``beta``, at most a
    quarter of ``highest_beta`` long, clipped to [0, ``highest_beta``].

    Floating-point tensors have the dtype of ``counts``. Not differentiable. If ``scale`` is not positive definite, the
    likelihood is NaN. ``rung`` names one kernel of the ladder (float32). Raises ``TypeError`` or ``ValueError`` that
    names the argument.
    """
    return _potts_m_step(counts, sums, total, previous, n_points, ridge, derivatives, beta, highest_beta, rung=rung)
