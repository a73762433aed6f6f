"""Match the domains of a start to those of the model: by an external field, the prior's borders, or given sizes."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment

from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.parallel import Alone


def domain_order(
    graph: Graph,
    q: torch.Tensor,
    field: torch.Tensor | None,
    interaction: torch.Tensor | None,
    sizes: torch.Tensor | None,
    parallel: Alone | None = None,
) -> torch.Tensor:
    """(K,): domain k of the model becomes domain ``order[k]`` of the start, whose probabilities are ``q`` (N, K).

    A ``field`` (N, K) determines the order; without it an ``interaction`` (K, K); without both the ``sizes`` (K,),
    where the largest domain gets the largest size. The result is on the CPU.
    """
    k = q.shape[1]
    parallel = Alone(len(q)) if parallel is None else parallel
    own = parallel.own
    if field is not None:
        overlap = parallel.sum(field[:own].T @ q[:own])
        return torch.from_numpy(linear_sum_assignment(overlap.cpu().numpy(), maximize=True)[1])
    if interaction is not None:
        borders = borders_of(graph.to(torch.device("cpu")), q.argmax(1).cpu(), k)
        return border_order(parallel.sum(borders), interaction)
    order = torch.arange(k)
    if sizes is not None:
        found = parallel.sum(q[:own].sum(0)).cpu() / parallel.n_points
        order[sizes.argsort(descending=True, stable=True)] = found.argsort(descending=True, stable=True)
    return order


def borders_of(graph: Graph, labels: torch.Tensor, k: int) -> torch.Tensor:
    """(K, K) float64: the sum of the weights of the edges between each pair of ``labels`` (N,)."""
    borders = torch.zeros(k, k, dtype=torch.float64)
    return borders.index_put_((labels[graph.rows], labels[graph.columns]), graph.weights.double(), accumulate=True)


def border_order(borders: torch.Tensor, interaction: torch.Tensor) -> torch.Tensor:
    """(K,): an order of the domains with a high sum of ``borders`` (K, K) times ``interaction`` (K, K).

    Domains are sorted by the second eigenvector of the Laplacian of their borders, then pairs are swapped as long as
    that increases the sum.
    """
    k = interaction.shape[0]
    borders = borders.clone().fill_diagonal_(0)
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
