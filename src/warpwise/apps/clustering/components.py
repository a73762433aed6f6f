"""Connected regions of equal labels, and merging of small ones into their neighbours."""

from __future__ import annotations

import torch

from warpwise.apps.clustering.graph import Graph


def connected_components(graph: Graph, labels: torch.Tensor) -> torch.Tensor:
    """(N,) int64 from 0: points share a number if edges between points of equal ``labels`` (N,) join them.

    Each round links every root to the smallest adjacent root and shortens all paths to length one.
    """
    rows = graph.rows
    same = labels[rows] == labels[graph.columns]
    rows, columns = rows[same], graph.columns[same]
    root = torch.arange(graph.n_points)
    while rows.numel():
        start, end = root[rows], root[columns]
        different = start != end
        if not bool(different.any()):
            break
        rows, columns, start, end = rows[different], columns[different], start[different], end[different]
        root.scatter_reduce_(0, start, end, "amin")
        while True:
            shorter = root[root]
            if torch.equal(shorter, root):
                break
            root = shorter
    return torch.unique(root, return_inverse=True)[1]


def merge_regions(
    graph: Graph,
    labels: torch.Tensor,
    likelihood: torch.Tensor,
    beta: float,
    min_region: int = 1,
    contiguous: bool = False,
) -> torch.Tensor:
    """(N,) int64: ``labels`` after regions of fewer than ``min_region`` points take the label of a neighbouring region.

    With ``contiguous`` every region but the largest of its label is merged too. Among the labels of its neighbours a
    region takes the one of the highest sum of ``likelihood`` (N, K) over its points plus ``beta`` times the weight of
    the edges that join them. A region without neighbours keeps its label. The smallest regions are merged first.
    """
    labels = labels.clone()
    domains = likelihood.shape[1]
    rows = graph.rows
    while True:
        region = connected_components(graph, labels)
        count = int(region.max()) + 1
        size = torch.bincount(region)
        owner = torch.empty(count, dtype=torch.int64)
        owner[region] = labels
        small = size < min_region
        if contiguous:
            # For each label the last region in order of size, then of number, is kept.
            rank = torch.argsort(torch.argsort(size, stable=True))
            best = torch.full((domains,), -1).scatter_reduce_(0, owner, rank, "amax")
            small |= rank < best[owner]
        start, end = region[rows], region[graph.columns]
        border = start != end
        start, end = start[border], end[border]
        # Only the smallest of adjacent small regions is merged in a round: no two merge into each other.
        order = size * count + torch.arange(count)
        smallest = torch.full((count,), torch.iinfo(torch.int64).max)
        touching = torch.where(small[end], order[end], torch.iinfo(torch.int64).max)
        smallest.scatter_reduce_(0, start, touching, "amin")
        merged = small & (order < smallest)
        merged &= torch.bincount(start, minlength=count) > 0
        if not bool(merged.any()):
            return labels
        contact = torch.zeros(count, domains, dtype=torch.float64)
        contact.index_put_((start, owner[end]), graph.weights[border].double(), accumulate=True)
        score = torch.zeros(count, domains, dtype=torch.float64).index_add_(0, region, likelihood.double())
        score = torch.where(contact > 0, score + beta * contact, -torch.inf)
        target = torch.where(merged, score.argmax(1), owner)
        labels = target[region]
