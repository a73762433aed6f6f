"""The float64 reference of potts_em_step, in the order of its definition."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch


def domains_of(features: torch.Tensor, linear: torch.Tensor | None) -> int:
    """The number of domains, of which ``features`` (N, R, K) without ``linear`` are the scores."""
    return features.shape[2] if linear is None else linear.shape[1]


def q_of(q: torch.Tensor, features: torch.Tensor, linear: torch.Tensor | None, *rest: Any) -> torch.Tensor:
    """(N, R, K): q without its columns of zeros."""
    return q[..., : domains_of(features, linear)]


def in_float64(args: tuple[Any, ...]) -> list[Any]:
    """The arguments in float64, q without its columns of zeros."""
    args = q_of(*args), *args[1:]
    return [part.double() if isinstance(part, torch.Tensor) and part.is_floating_point() else part for part in args]


def as_given(values: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
    """``values`` (N, R, K) with the columns of zeros that q has."""
    return torch.nn.functional.pad(values, (0, args[0].shape[2] - values.shape[2]))


def scores_of(features: torch.Tensor, linear: Any, constant: Any) -> torch.Tensor:
    """(N, R, K)."""
    return features if linear is None else torch.einsum("nd,rkd->nrk", features, linear) + constant


def support(
    q: torch.Tensor, rowptr: torch.Tensor, columns: torch.Tensor, weights: Any = None, interaction: Any = None
) -> torch.Tensor:
    """(N, R, K): near of all points at the present q, by an addition for each edge."""
    counts = rowptr.long().diff()
    rows = torch.repeat_interleave(torch.arange(len(q), device=q.device), counts)
    values = q[columns.long()] * (1 if weights is None else weights[:, None, None])
    near = torch.zeros_like(q).index_add_(0, rows, values)
    return near if interaction is None else near @ interaction


def reference(*args: Any) -> Any:
    """The outputs, then the new q. Every colour computes the support of all points and keeps its own."""
    (q, features, linear, constant, rowptr, columns, weights, beta, external, interaction, bounds, temper, slopes,
     with_near) = in_float64(args)  # fmt: skip
    q, scores = q.clone(), scores_of(features, linear, constant)
    near, start, stop = torch.zeros_like(q), bounds[0], bounds[-1]
    for begin, end in pairwise(bounds):
        around = support(q, rowptr, columns, weights, interaction)
        near[begin:end] = around[begin:end]
        q[begin:end] = torch.softmax(temper * scores + beta[:, None] * around + external, 2)[begin:end]
    counts = sums = found = None
    if linear is not None:
        counts = q[start:stop].sum(0)
        sums = torch.einsum("nrk,nd->rkd", q[start:stop], features[start:stop])
    if slopes:
        prior = torch.softmax(beta[:, None] * near + external, 2)
        expected = (prior * near).sum(2, keepdim=True)
        first = ((q - prior) * near)[start:stop].sum((0, 2))
        found = torch.stack([first, (prior * (near - expected).square())[start:stop].sum((0, 2))])
    return counts, sums, found, near[start:stop] if with_near else None, as_given(q, args)
