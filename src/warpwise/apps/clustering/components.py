"""Connected regions of equal labels, and merging of small ones into their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from warpwise import ops
from warpwise.apps.clustering.graph import Graph, from_sparse


def connected_components(graph: Any, labels: Any) -> Any:
    """(N,) int64 from 0: points share a number if edges between points of equal ``labels`` (N,) join them.

    ``graph`` is a ``Graph``, or what ``from_sparse`` takes. ``labels`` is an array or a tensor of integers, such as
    ``labels_`` of a fit; the result is of the same kind. Raises ``ValueError`` for labels of another dtype or shape.
    """
    built = graph if isinstance(graph, Graph) else from_sparse(graph)
    given = labels if isinstance(labels, torch.Tensor) else np.asarray(labels)
    if isinstance(given, torch.Tensor):
        integers = not (given.is_floating_point() or given.is_complex())
    else:
        integers = given.dtype.kind in "iub"
    if not integers:
        advice = "numpy.unique(labels, return_inverse=True)[1] numbers other labels"
        raise ValueError(f"labels: expected integers, got {given.dtype}; {advice}")
    if tuple(given.shape) != (built.n_points,):
        raise ValueError(f"labels: expected ({built.n_points},), one a point of graph, got {tuple(given.shape)}")
    # Of uint64 this is one to one: values of 2**63 or more become negative.
    wide = given.to(torch.int64) if isinstance(given, torch.Tensor) else torch.from_numpy(given.astype(np.int64))
    if not torch.equal(wide.to(torch.int32).long(), wide):
        wide = torch.unique(wide, return_inverse=True)[1]
    regions = _regions(built, wide)
    return regions if isinstance(given, torch.Tensor) else regions.numpy()


def _regions(graph: Graph, labels: torch.Tensor) -> torch.Tensor:
    """``connected_components`` of labels that int32 holds."""
    root = ops.connected_components(labels.to(graph.columns.device, torch.int32), graph.rowptr, graph.columns).long()
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
        region = _regions(graph, labels)
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
