"""The magnitudes of potts_em_step's rounding errors, from those of the logits of q and of q in bfloat16.

The reference does not round q. If q is stored in bfloat16, each colour reads rounded probabilities of the colours
before. The error that follows is bounded apart, element by element, and divided by the unit of the tolerance.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from warpwise.ops.potts_em_step.reference import as_given, in_float64, q_of, reference, scores_of, support

_SECOND_ORDER = 1.05  # errors of a logit below 5 %
_UNIT = 2.0**-24  # of float32, in which is computed
_COEFFICIENT = 2.0**-17  # relative error of a coefficient that is the sum of two bfloat16 numbers


class Rounded(NamedTuple):
    """Bounds (N, R, K) of the errors of the stored q, of q before it is stored, and of near."""

    stored: torch.Tensor
    q: torch.Tensor
    near: torch.Tensor


def _rounded(args: tuple[Any, ...]) -> Rounded | None:
    """None if q is not rounded. An error dl of the logits changes q_k by q_k (dl_k - sum_m q_m dl_m), and the stored q
    by half a unit of bfloat16 more; near changes by the weighted sum of the stored errors. With features in bfloat16
    the error of a coefficient adds |temper| 2^-17 sum_d |x_d linear_kd| to that of a logit."""
    if args[0].dtype == args[7].dtype:
        return None
    q, features, linear, constant, rowptr, columns, weights, beta, external, interaction, bounds, temper, *_ = (
        in_float64(args)
    )
    half = torch.finfo(args[0].dtype).eps / 2
    of_scores = torch.zeros_like(q)
    if args[1].dtype != args[7].dtype:
        of_scores = _COEFFICIENT * abs(temper) * torch.einsum("nd,rkd->nrk", features.abs(), linear.abs())
    scores, q = temper * scores_of(features, linear, constant), q.clone()
    graph = rowptr, columns, None if weights is None else weights.abs()
    absolute = None if interaction is None else interaction.abs()
    found = Rounded(*(torch.zeros_like(q) for _ in range(3)))
    for begin, end in pairwise(bounds):
        around, near = support(q, rowptr, columns, weights, interaction), support(found.stored, *graph, absolute)
        new = torch.softmax(scores + beta[:, None] * around + external, 2)
        logits = of_scores + beta.abs()[:, None] * near
        moved = _moved(new, logits)
        for whole, part in zip((q, *found), (new, moved + half * new, moved, near), strict=True):
            whole[begin:end] = part[begin:end]
    return found


def _moved(probabilities: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return _SECOND_ORDER * probabilities * (logits + (probabilities * logits).sum(2, keepdim=True))


def _in_units(error: torch.Tensor, count: int) -> torch.Tensor:
    """``error`` as a part of the magnitude of a sum of ``count`` terms, whose tolerance is u growth(n) magnitude."""
    return error / (_UNIT * (16 + min(count, 6 * math.sqrt(count))))


def _logits(args: tuple[Any, ...]) -> torch.Tensor:
    """(N, R): 1 for the rounding of q, plus the absolute terms of the largest logit of a point.

    An error of the logits changes the sum of |q| by at most as much. An error of q changes the logits of the next
    colour by at most beta times the degree, 1 in the test inputs, so that errors do not grow from colour to colour.
    """
    q, features, linear, constant, rowptr, columns, weights, beta, external, interaction, _, temper, *_ = (
        part.abs() if isinstance(part, torch.Tensor) else part for part in in_float64(args)
    )
    near = support(torch.ones_like(q), rowptr, columns, weights, interaction)
    largest = temper * scores_of(features, linear, constant) + beta[:, None] * near + external
    return 1 + largest.amax(2)


def _weights(args: tuple[Any, ...]) -> torch.Tensor:
    """(N, R, K): the total weight of each point's edges."""
    rowptr, columns, weights = args[4:7]
    return support(torch.ones_like(q_of(*args), dtype=torch.float64), rowptr, columns, weights)


def _updated(args: tuple[Any, ...]) -> slice:
    return slice(args[10][0], args[10][-1])


def of_q(*args: Any) -> torch.Tensor:
    found = _logits(args)
    highest, rounded = float(found.max()) if found.numel() else 0.0, _rounded(args)
    largest = args[7].new_full(q_of(*args).shape, highest, dtype=torch.float64)
    return as_given(largest if rounded is None else largest + _in_units(rounded.q, terms(*args)), args)


def of_counts(*args: Any) -> torch.Tensor:
    """The sum over the points of q, at most 1, and of its error: q is that before or after it is stored."""
    found = (1 + _logits(args))[_updated(args)].sum(0)[:, None].expand(q_of(*args).shape[1:])
    rounded = _rounded(args)
    return found if rounded is None else found + _in_units(rounded.stored[_updated(args)].sum(0), points(*args))


def of_sums(*args: Any) -> torch.Tensor:
    if args[2] is None:
        return args[0].new_zeros(0, dtype=torch.float64)
    own, rounded = _updated(args), _rounded(args)
    features = args[1][own].double().abs()
    found = torch.einsum("nr,nd->rd", (1 + _logits(args))[own], features)[:, None].expand(*q_of(*args).shape[1:], -1)
    if rounded is None:
        return found
    return found + _in_units(torch.einsum("nrk,nd->rkd", rounded.stored[own], features), points(*args))


def of_derivatives(*args: Any) -> torch.Tensor:
    """Sums of products, and the errors of q and p, whose sum over the domains is 0, and of the support n.

    sum_k |dq_k n_k| is at most the largest difference of n times the error of a logit, and sum_k |(q - p)_k dn_k| the
    total weight of a point's edges times that of its neighbours. Likewise for the variance.
    """
    beta, external, interaction = in_float64(args)[7:10]
    near, q = reference(*in_float64(args)[:12], False, True)[3:]
    own = _updated(args)
    external = external if external.shape[0] == 1 else external[own]
    logits, q = _logits(args)[own], q[own]
    reach = _weights(args)[own].amax(2)
    if interaction is not None:
        reach = reach * float(interaction.abs().sum(0).max())
    prior = torch.softmax(beta[:, None] * near + external, 2)
    mean = (prior * near).sum(2, keepdim=True)
    spread = near.amax(2) - near.amin(2)
    first = ((q + prior) * near.abs()).sum(2) + spread * logits + (q - prior).abs().sum(2) * reach * logits / 2
    second = (prior * near.square()).sum(2) + mean[..., 0].square() + spread.square() * logits
    second = second + (prior * (near - mean).abs()).sum(2) * reach * logits
    found, rounded = torch.stack([first.sum(0), second.sum(0)]), _rounded(args)
    if rounded is None:
        return found
    off = rounded.near[own]
    of_prior = _moved(prior, beta.abs()[:, None] * off)
    away = (near - mean).abs()
    first = ((rounded.q[own] + of_prior) * away + (q - prior).abs() * off).sum((0, 2))
    second = (of_prior * away.square() + 2 * prior * away * off).sum((0, 2))
    return found + _in_units(_SECOND_ORDER * torch.stack([first, second]), points(*args))


def of_near(*args: Any) -> torch.Tensor:
    found = _logits(args)
    reach = _weights(args)
    scale = 1.0 if args[9] is None else float(args[9].abs().sum(0).max())
    magnitude = (reach * scale * (1 + (float(found.max()) if found.numel() else 0.0)))[_updated(args)]
    rounded = _rounded(args)
    return magnitude if rounded is None else magnitude + _in_units(rounded.near[_updated(args)], terms(*args))


def terms(*args: Any) -> int:
    """The terms of a logit."""
    linear, rowptr, interaction = args[2], args[4], args[9]
    degree = int(rowptr.diff().max()) if len(rowptr) > 1 else 0
    return 2 + degree + (0 if linear is None else linear.shape[2]) + (0 if interaction is None else len(interaction))


def points(*args: Any) -> int:
    return args[10][-1] - args[10][0] + terms(*args)
