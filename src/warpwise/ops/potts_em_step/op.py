"""The public function potts_em_step."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from warpwise.arguments.checks import listed
from warpwise.operation import Op, register
from warpwise.ops.potts_em_step.rungs import RUNGS, default
from warpwise.ops.potts_em_step.spec import SPEC

POTTS_EM_STEP = register(Op(SPEC, RUNGS, default))
_potts_em_step = POTTS_EM_STEP.call

Optional = torch.Tensor | None


def potts_em_step(
    q: torch.Tensor,
    features: torch.Tensor,
    linear: Optional,
    constant: Optional,
    rowptr: torch.Tensor,
    columns: torch.Tensor,
    weights: Optional,
    beta: torch.Tensor,
    external: torch.Tensor,
    interaction: Optional,
    bounds: Sequence[int],
    temper: float = 1.0,
    return_derivatives: bool = False,
    return_near: bool = False,
    *,
    rung: str | None = None,
) -> tuple[Optional, Optional, Optional, Optional]:
    """Update the domain probabilities ``q`` (N, R, K or more) of R fits in place, colour by colour; return moments.

    For each colour, the points ``bounds[c]`` to ``bounds[c + 1]``, of which no two are neighbours,

        near_i = sum_j w_ij V q_j,    q_i = softmax_k(temper * score_i + beta * near_i + external_i).

    The score of domain k is x_i · ``linear`` (R, K, D) + ``constant`` (R, K), with x = ``features`` (N, D); without
    ``linear`` and ``constant`` the scores themselves are ``features`` (N, R, K). ``rowptr`` (N + 1,) and ``columns``
    (E,), int32 or int64, and ``weights`` (E,), or None for ones, are the graph in compressed sparse rows. ``beta`` is
    (R,), ``external`` (1 or N, 1 or R, K), and V = ``interaction`` (K, K), or None for the identity.

    Returns (counts, sums, derivatives, near) of the n = ``bounds[-1] - bounds[0]`` points that are updated:
    ``counts`` (R, K) = sum_i q_i and ``sums`` (R, K, D) = sum_i q_i x_i, None without ``linear``;
    ``derivatives`` (2, R) of the pseudo-likelihood for beta, sum_i (q_i - p_i) · near_i and sum_i Var_p(near_i) with
    p_i = softmax(beta * near_i + external_i), None without ``return_derivatives``;
    ``near`` (n, R, K), None without ``return_near``.

    All floating-point tensors have the dtype of ``beta``, except that q may be bfloat16 where the others are float32.
    Then the posterior of float32 is rounded to nearest when it is stored, and neighbours read the rounded values.
    ``near`` and ``derivatives`` are those of the posterior before it is rounded; ``counts`` and ``sums`` of that or, by
    some rungs, of the rounded one. With q in bfloat16 and ``linear`` given, ``features`` may be bfloat16 too. A kernel
    then represents an element of ``linear`` as the sum of two bfloat16 numbers (relative error at most 2^-17). Rows of
    both may be padded, as those of ``spec.empty_rows`` are, so that a kernel takes them by loads of 16 bytes. The
    padding is not written; that of features must be finite. Kernels take features in bfloat16 in such rows only.

    q may have more than K columns: those from K on must be zeros, which is not checked, and remain zeros. Given whole
    rows, ``spec.rows_of(q)`` for a q of ``spec.empty_rows``, a kernel stores whole vectors, which takes less time.

    Not differentiable. ``rung`` names one kernel of the ladder (float32 or q and features as above, int32). Raises
    ``TypeError`` or ``ValueError`` that names the argument. The contents of the graph are not checked.
    """
    return _potts_em_step(
        q,
        features,
        linear,
        constant,
        rowptr,
        columns,
        weights,
        beta,
        external,
        interaction,
        tuple(listed("potts_em_step", "bounds", bounds, "integers")),
        temper,
        return_derivatives,
        return_near,
        rung=rung,
    )
