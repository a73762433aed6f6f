"""Sums and averages over the neighbours of each point."""

from __future__ import annotations

import torch

from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.parallel import Alone
from warpwise.apps.clustering.ranks import Ranks
from warpwise.ops import smooth_features


def neighbour_sum(graph: Graph, values: torch.Tensor) -> torch.Tensor:
    """(N, F): the weighted sum of ``values`` (N, F) over the neighbours of each point."""
    if not graph.columns.numel():
        return torch.zeros_like(values)
    if values.is_cuda:
        return _sum_with_own(graph, values).sub_(values)
    return torch.nn.functional.embedding_bag(
        graph.columns,
        values,
        graph.rowptr,
        mode="sum",
        per_sample_weights=graph.weights.to(values.dtype),
        include_last_offset=True,
    )


def neighbour_differences(graph: Graph, values: torch.Tensor) -> torch.Tensor:
    """(N, F): sum_j w_ij (x_j - x_i) over the neighbours j of each point i; ``values`` x are (N, F)."""
    if values.is_cuda and graph.columns.numel():
        return _sum_with_own(graph, values).addcmul_(values, graph.degree[:, None] + 1, value=-1)
    return neighbour_sum(graph, values).addcmul_(values, graph.degree[:, None], value=-1)


def _sum_with_own(graph: Graph, values: torch.Tensor) -> torch.Tensor:
    """``neighbour_sum`` plus ``values``, on a GPU."""
    ones = values.new_ones(len(values))
    return smooth_features(values, graph.rowptr, graph.columns, _weights(graph, values), ones)


def smooth(graph: Graph, values: torch.Tensor, hops: int, parallel: Alone | None = None) -> torch.Tensor:
    """Replace ``values`` (N, F), ``hops`` times, by the weighted mean of each point (weight 1) and its neighbours."""
    if hops == 0:
        return values
    if isinstance(parallel, Ranks):
        for _ in range(hops):
            values = smooth(graph, values, 1)
            parallel.exchange(values)
        return values
    scale = 1 / (1 + graph.degree.to(values.dtype))
    return smooth_features(values, graph.rowptr, graph.columns, _weights(graph, values), scale, hops)


def _weights(graph: Graph, values: torch.Tensor) -> torch.Tensor | None:
    weights = graph.weights_or_none
    return None if weights is None else weights.to(values.dtype)


def noise_left(graph: Graph, hops: int) -> float:
    """The variance of independent noise of variance 1 after ``smooth``, averaged over the points.

    It is the mean of sum_j S_ij^2 with S the smoothing operator, estimated with 64 vectors of random signs.
    """
    drawn = torch.randint(2, (graph.n_points, 64), generator=torch.Generator().manual_seed(0))
    signs = drawn.float() * 2 - 1
    return float(smooth(graph, signs.to(graph.weights.device), hops).square().mean())


def width_of_parts(width: int, device: torch.device) -> int:
    """The number of columns, of ``width``, that are smoothed at a time: about half of them on a GPU, all on a CPU."""
    return 4 * -(-width // 8) if device.type == "cuda" and width > 4 else width
