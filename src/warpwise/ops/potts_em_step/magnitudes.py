"""The magnitudes of potts_em_step's rounding errors, from those of the logits of q."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops.potts_em_step.reference import in_float64, reference, scores_of, support


def _logits(args: tuple[Any, ...]) -> torch.Tensor:
    """(N, R): 1 for the rounding of q, plus the absolute terms of the largest logit of a point.

    An error of the logits changes the sum of |q| by at most as much. An error of q changes the logits of the next
    colour by at most beta times the degree, 1 in the test inputs, so that errors do not grow from colour to colour.
    """
    _, features, linear, constant, rowptr, columns, weights, beta, external, interaction, _, temper, *_ = (
        part.abs() if isinstance(part, torch.Tensor) else part for part in in_float64(args)
    )
    near = support(torch.ones_like(args[0], dtype=torch.float64), rowptr, columns, weights, interaction)
    largest = temper * scores_of(features, linear, constant) + beta[:, None] * near + external
    return 1 + largest.amax(2)


def _weights(args: tuple[Any, ...]) -> torch.Tensor:
    """(N, R, K): the total weight of each point's edges."""
    rowptr, columns, weights = args[4:7]
    return support(torch.ones_like(args[0], dtype=torch.float64), rowptr, columns, weights)


def _updated(args: tuple[Any, ...]) -> slice:
    return slice(args[10][0], args[10][-1])


def of_q(*args: Any) -> torch.Tensor:
    found = _logits(args)
    return torch.full_like(args[0], float(found.max()) if found.numel() else 0.0, dtype=torch.float64)


def of_counts(*args: Any) -> torch.Tensor:
    """The sum over the points of q, at most 1, and of its error."""
    return (1 + _logits(args))[_updated(args)].sum(0)[:, None].expand(args[0].shape[1:])


def of_sums(*args: Any) -> torch.Tensor:
    if args[2] is None:
        return args[0].new_zeros(0, dtype=torch.float64)
    points = _updated(args)
    found = torch.einsum("nr,nd->rd", (1 + _logits(args))[points], args[1][points].double().abs())
    return found[:, None].expand(*args[0].shape[1:], -1)


def of_derivatives(*args: Any) -> torch.Tensor:
    """Sums of products, and the errors of q and p, whose sum over the domains is 0, and of the support n.

    sum_k |dq_k n_k| is at most the largest difference of n times the error of a logit, and sum_k |(q - p)_k dn_k| the
    total weight of a point's edges times that of its neighbours. Likewise for the variance.
    """
    beta, external, interaction = (in_float64((args[at],))[0] for at in (7, 8, 9))
    near, q = reference(*args[:12], False, True)[3:]
    points = _updated(args)
    external = external if external.shape[0] == 1 else external[points]
    logits, q = _logits(args)[points], q[points]
    reach = _weights(args)[points].amax(2)
    if interaction is not None:
        reach = reach * float(interaction.abs().sum(0).max())
    prior = torch.softmax(beta[:, None] * near + external, 2)
    mean = (prior * near).sum(2, keepdim=True)
    spread = near.amax(2) - near.amin(2)
    first = ((q + prior) * near.abs()).sum(2) + spread * logits + (q - prior).abs().sum(2) * reach * logits / 2
    second = (prior * near.square()).sum(2) + mean[..., 0].square() + spread.square() * logits
    second = second + (prior * (near - mean).abs()).sum(2) * reach * logits
    return torch.stack([first.sum(0), second.sum(0)])


def of_near(*args: Any) -> torch.Tensor:
    found = _logits(args)
    reach = _weights(args)
    scale = 1.0 if args[9] is None else float(args[9].abs().sum(0).max())
    return (reach * scale * (1 + (float(found.max()) if found.numel() else 0.0)))[_updated(args)]


def terms(*args: Any) -> int:
    """The terms of a logit."""
    linear, rowptr, interaction = args[2], args[4], args[9]
    degree = int(rowptr.diff().max()) if len(rowptr) > 1 else 0
    return 2 + degree + (0 if linear is None else linear.shape[2]) + (0 if interaction is None else len(interaction))


def points(*args: Any) -> int:
    return args[10][-1] - args[10][0] + terms(*args)
