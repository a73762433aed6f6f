"""Nearest neighbours and neighbours within a radius in 2-D and 3-D, by a hash of cubic cells.

Points are sorted by cell. A query reads the 9 or 27 cells around its own: a point within one cell side is always among
them. All queries of a batch are expanded into one array of candidate pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
import torch

from warpwise.apps.clustering.graph import Graph, symmetric, with_indices_of_device

_BATCH = 1 << 23  # candidate pairs in memory at once
_MAX_EXTENT = 1e150  # squared distances are finite
_MAX_CELLS = {2: 1 << 31, 3: 1 << 20}  # per axis: a key of all axes fits in an int64


def knn(coords: Any, k: int = 8, device: torch.device | None = None) -> Graph:
    """Join each point to its ``k`` nearest others by Euclidean distance; made symmetric, so a degree may exceed ``k``.

    ``coords`` is (N, 2) or (N, 3), finite. Points at the same place are ordinary neighbours at distance 0; the time
    grows with the square of their number. If N <= k, all points are joined. The graph is built on ``device``, by
    default the CPU; among equally distant points, devices may choose differently. Raises ``ValueError`` for a wrong
    shape, values that are not finite, or a k that is not a positive integer.
    """
    points = check_coords(coords).to(device)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k: expected an integer of at least 1, got {k!r}")
    n = points.shape[0]
    k = min(k, n - 1)
    if k <= 0:
        none = torch.empty(0, dtype=torch.int64, device=points.device)
        return with_indices_of_device(symmetric(none, none, n)).at(points)
    side = _side_for(points, k)
    queries = torch.arange(n, device=points.device)
    found_rows, found_columns = [], []
    while queries.numel():
        cells = _Cells(points, side)
        unresolved = []
        for rows, columns, squared, batch in cells.candidates(queries):
            # All points within one cell side are candidates; of the points further away, only some are.
            if not cells.whole:
                near = squared <= cells.side**2
                rows, columns, squared = rows[near], columns[near], squared[near]
            counts = torch.bincount(rows, minlength=batch.numel())
            enough = counts >= k
            kept = enough[rows]
            rows, columns, squared = rows[kept], columns[kept], squared[kept]
            # Sorted by distance, then stably by row: the first k of each row are its nearest.
            order = torch.argsort(squared)
            order = order[torch.argsort(rows[order], stable=True)]
            rows, columns = rows[order], columns[order]
            counts = torch.where(enough, counts, 0)
            keep = torch.arange(rows.numel(), device=rows.device) - (counts.cumsum(0) - counts)[rows] < k
            found_rows.append(batch[rows[keep]])
            found_columns.append(columns[keep])
            unresolved.append(batch[~enough])
        queries = torch.cat(unresolved)
        side *= 2
    return with_indices_of_device(symmetric(torch.cat(found_rows), torch.cat(found_columns), n)).at(points)


def radius(coords: Any, distance: float, device: torch.device | None = None) -> Graph:
    """Join points at most ``distance`` apart. ``coords`` is (N, 2) or (N, 3), finite; a point may be isolated.

    The graph is built on ``device``, by default the CPU. Raises ``ValueError`` for a wrong shape, values that are not
    finite, or a distance that is not positive.
    """
    points = check_coords(coords).to(device)
    if not (isinstance(distance, Real) and distance > 0 and np.isfinite(distance)):
        raise ValueError(f"distance: expected a positive number, got {distance!r}")
    cells = _Cells(points, float(distance))
    rows, columns = [], []
    queries = torch.arange(points.shape[0], device=points.device)
    for pair_rows, pair_columns, squared, batch in cells.candidates(queries):
        near = squared <= distance**2
        rows.append(batch[pair_rows[near]])
        columns.append(pair_columns[near])
    return with_indices_of_device(symmetric(torch.cat(rows), torch.cat(columns), points.shape[0])).at(points)


def check_coords(coords: Any) -> torch.Tensor:
    """``coords`` as (N, 2) or (N, 3) float64, or ``ValueError``."""
    try:
        points = torch.as_tensor(coords if isinstance(coords, torch.Tensor) else np.array(coords, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"coords: expected numbers (N, 2) or (N, 3): {error}") from error
    points = points.detach().to("cpu", torch.float64)
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ValueError(f"coords: expected (N, 2) or (N, 3), got {tuple(points.shape)}")
    if points.shape[0] == 0:
        raise ValueError("coords: expected at least one point, got none")
    if not bool(torch.isfinite(points).all()):
        bad = (~torch.isfinite(points)).any(1)
        where = f"in {int(bad.sum()):,} of {len(points):,} points, first in point {int(bad.int().argmax())}"
        raise ValueError(f"coords: expected finite values, got NaN or infinity {where}")
    extent = float((points.amax(0) - points.amin(0)).max())
    if extent > _MAX_EXTENT:
        raise ValueError(f"coords: expected an extent of at most {_MAX_EXTENT:g}, got {extent:g}")
    return points


class _Cells:
    """Points sorted by cell of ``side``; ``whole`` if every query reads all points."""

    def __init__(self, points: torch.Tensor, side: float) -> None:
        low = points.amin(0)
        extent, axes = float((points - low).max()), points.shape[1]
        self.side = max(side, extent / (_MAX_CELLS[axes] - 4))
        self.points = points
        self.place = ((points - low) / self.side).floor().to(torch.int64) + 1
        self.whole = bool((self.place <= 2).all())
        self.strides = torch.tensor([_MAX_CELLS[axes] ** axis for axis in range(axes)], device=points.device)
        keys = (self.place * self.strides).sum(1)
        sorted_keys, self.order = torch.sort(keys, stable=True)
        self.keys, counts = torch.unique_consecutive(sorted_keys, return_counts=True)
        self.counts = counts
        self.starts = counts.cumsum(0) - counts

    def mean_candidates(self) -> float:
        """The mean number of points in a point's own cell."""
        return float((self.counts.double() ** 2).sum() / self.points.shape[0])

    def candidates(
        self, queries: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Yield (rows, columns, squared distances, batch): ``rows`` index ``batch``, a part of ``queries``."""
        axes, device = self.points.shape[1], self.points.device
        steps = torch.cartesian_prod(*[torch.arange(-1, 2, device=device)] * axes)
        around = ((self.place[queries][:, None] + steps) * self.strides).sum(2)  # a GPU has no products of integers
        at = torch.searchsorted(self.keys, around).clamp(max=self.keys.numel() - 1)
        counts = torch.where(self.keys[at] == around, self.counts[at], 0)
        total = counts.sum(1).cumsum(0)
        begin = 0
        while begin < queries.numel():
            before = int(total[begin - 1]) if begin else 0
            end = max(
                begin + 1, int(torch.searchsorted(total, torch.tensor(before + _BATCH, device=device), right=True))
            )
            part = counts[begin:end].flatten()
            row_of_cell = torch.repeat_interleave(torch.arange(end - begin, device=device), steps.shape[0])
            rows = torch.repeat_interleave(row_of_cell, part)
            first = torch.repeat_interleave(self.starts[at[begin:end].flatten()] - (part.cumsum(0) - part), part)
            columns = self.order[first + torch.arange(rows.numel(), device=device)]
            batch = queries[begin:end]
            different = columns != batch[rows]
            rows, columns = rows[different], columns[different]
            squared = (self.points[batch[rows]] - self.points[columns]).square().sum(1)
            yield rows, columns, squared, batch
            begin = end


def _side_for(points: torch.Tensor, k: int) -> float:
    """A cell side at which about 2 ``k`` points are within one side of a point, on average over the points.

    Parts of high density determine it; neighbours in sparse parts are found in later passes with larger cells.
    """
    extent = float((points.amax(0) - points.amin(0)).max())
    if extent == 0:
        return 1.0
    n, axes = points.shape
    wanted = 2 * k / (3.1 if axes == 2 else 4.2)
    side = extent * (wanted / n) ** (1 / axes)
    for _ in range(48):
        if _Cells(points, side).mean_candidates() <= 2 * wanted + 2:
            break
        side /= 2
    return side
