"""Sums and averages over the neighbours of each point."""

from __future__ import annotations

import torch

from warpwise.apps.clustering.graph import Graph


def neighbour_sum(graph: Graph, values: torch.Tensor, begin: int = 0, end: int | None = None) -> torch.Tensor:
    """(end - begin, F): the weighted sum of ``values`` (N, F) over the neighbours of points ``begin`` to ``end``."""
    rowptr = graph.rowptr[begin : None if end is None else end + 1]
    low, high = int(rowptr[0]), int(rowptr[-1])
    if low == high:
        return values.new_zeros(rowptr.numel() - 1, values.shape[1])
    return torch.nn.functional.embedding_bag(
        graph.columns[low:high],
        values,
        rowptr - low,
        mode="sum",
        per_sample_weights=graph.weights[low:high].to(values.dtype),
        include_last_offset=True,
    )


def smooth(graph: Graph, values: torch.Tensor, hops: int) -> torch.Tensor:
    """Replace ``values`` (N, F), ``hops`` times, by the weighted mean of each point (weight 1) and its neighbours."""
    scale = 1 / (1 + graph.degree.to(values.dtype))[:, None]
    for _ in range(hops):
        values = (values + neighbour_sum(graph, values)) * scale
    return values


def noise_left(graph: Graph, hops: int) -> float:
    """The variance that independent noise of variance 1 keeps after ``smooth``, averaged over the points.

    It is the mean of sum_j S_ij^2 with S the smoothing operator, estimated with 64 vectors of random signs.
    """
    signs = torch.randint(2, (graph.n_points, 64), generator=torch.Generator().manual_seed(0)) * 2.0 - 1
    return float(smooth(graph, signs, hops).square().mean())
