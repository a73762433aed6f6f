"""Which domain of a start is which: by an external field, by the borders that a prior wants, or by wanted sizes."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment

from warpwise.apps.clustering.graph import Graph


def domain_order(
    graph: Graph,
    q: torch.Tensor,
    field: torch.Tensor | None,
    interaction: torch.Tensor | None,
    sizes: torch.Tensor | None,
) -> torch.Tensor:
    """(K,): domain k of the model becomes domain ``order[k]`` of the start, whose probabilities are ``q`` (N, K).

    A ``field`` (N, K) decides; without it an ``interaction`` (K, K); without both ``sizes`` (K,), the largest domain
    taking the largest.
    """
    k = q.shape[1]
    if field is not None:
        return torch.from_numpy(linear_sum_assignment((field.T @ q).numpy(), maximize=True)[1])
    if interaction is not None:
        return border_order(graph, q.argmax(1), interaction)
    order = torch.arange(k)
    if sizes is not None:
        order[sizes.argsort(descending=True, stable=True)] = q.mean(0).argsort(descending=True, stable=True)
    return order


def border_order(graph: Graph, labels: torch.Tensor, interaction: torch.Tensor) -> torch.Tensor:
    """(K,): the order of the domains in which the borders between ``labels`` (N,) cost least under ``interaction``.

    Domains are sorted by the second eigenvector of the Laplacian of their borders, then pairs are swapped while it
    helps.
    """
    k = interaction.shape[0]
    borders = torch.zeros(k, k, dtype=torch.float64)
    borders.index_put_((labels[graph.rows], labels[graph.columns]), graph.weights.double(), accumulate=True)
    borders.fill_diagonal_(0)
    scaled = borders / (borders.sum(1).clamp(min=1).sqrt()[:, None] * borders.sum(0).clamp(min=1).sqrt())
    laplacian = torch.diag(scaled.sum(1)) - scaled
    order = torch.linalg.eigh(laplacian)[1][:, min(1, k - 1)].argsort(stable=True)
    gain = float((borders[order][:, order] * interaction).sum())
    improved = True
    while improved:
        improved = False
        for first in range(k):
            for second in range(first + 1, k):
                swapped = order.clone()
                swapped[[first, second]] = order[[second, first]]
                new = float((borders[swapped][:, swapped] * interaction).sum())
                if new > gain + 1e-9:
                    order, gain, improved = swapped, new, True
    return order
