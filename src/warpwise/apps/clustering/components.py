"""Connected regions of equal labels, and merging of small ones into their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from warpwise import ops
from warpwise.apps.clustering.graph import Graph


def connected_components(graph: Graph, labels: Any) -> Any:
    """(N,) int64 from 0: points share a number if edges between points of equal ``labels`` (N,) join them.

    ``labels`` is an array or a tensor, such as ``labels_`` of a fit; the result is of the same kind.
    """
    if not isinstance(labels, torch.Tensor):
        return connected_components(graph, torch.as_tensor(np.array(labels))).cpu().numpy()
    here = labels.to(graph.columns.device, torch.int32)
    root = ops.connected_components(here, graph.rowptr, graph.columns).long()
    number = (root == torch.arange(len(root), device=root.device)).cumsum(0) - 1
    return number[root].to(labels.device)


def merge_regions(
    graph: Graph,
    labels: torch.Tensor,
    likelihood: torch.Tensor,
    beta: float,
    min_region: int = 1,
    contiguous: bool = False,
) -> torch.Tensor:
    """(N,) int64: ``labels`` after regions of fewer than ``min_region`` points take the label of a neighbouring region.

    With ``contiguous`` every region except the largest of its label is merged too. A region takes the label of a
    neighbour for which the sum of ``likelihood`` (N, K) over the points of the region, plus ``beta`` times the weight
    of the edges to this label, is the highest. A region without neighbours keeps its label. The smallest regions are
    merged first.
    """
    labels, device = labels.clone(), labels.device
    domains = likelihood.shape[1]
    rows, largest = graph.rows, torch.iinfo(torch.int64).max
    while True:
        region = connected_components(graph, labels)
        count = int(region.max()) + 1
        size = torch.bincount(region)
        owner = torch.empty(count, dtype=torch.int64, device=device)
        owner[region] = labels
        small = size < min_region
        if contiguous:
            # For each label the last region in order of size, then of number, is kept.
            rank = torch.argsort(torch.argsort(size, stable=True))
            best = torch.full((domains,), -1, device=device).scatter_reduce_(0, owner, rank, "amax")
            small |= rank < best[owner]
        start, end = region[rows], region[graph.columns]
        border = start != end
        start, end = start[border], end[border]
        # Only the smallest of adjacent small regions is merged in a round: no two merge into each other.
        order = size * count + torch.arange(count, device=device)
        smallest = torch.full((count,), largest, device=device)
        touching = torch.where(small[end], order[end], largest)
        smallest.scatter_reduce_(0, start, touching, "amin")
        merged = small & (order < smallest)
        merged &= torch.bincount(start, minlength=count) > 0
        if not bool(merged.any()):
            return labels
        # On a GPU too, index_put_ adds in a fixed order; only points of the merged regions are added.
        contact = torch.zeros(count, domains, dtype=torch.float64, device=device)
        contact.index_put_((start, owner[end]), graph.weights[border].double(), accumulate=True)
        points = torch.nonzero(merged[region]).flatten()
        score = torch.zeros_like(contact)
        score.index_put_((region[points],), likelihood[points].double(), accumulate=True)
        score = torch.where(contact > 0, score + beta * contact, -torch.inf)
        target = torch.where(merged, score.argmax(1), owner)
        labels = target[region]
