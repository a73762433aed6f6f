"""Symmetric neighbour graphs in compressed sparse rows, coloured so that no two neighbours share a colour."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from warpwise.apps.clustering import morton
from warpwise.apps.clustering.estimator import check_count

_ROWS = 1 << 18  # rows that are permuted at a time on a GPU


@dataclass(frozen=True)
class Graph:
    """A symmetric, weighted graph of N points without self-loops, in compressed sparse rows.

    ``rowptr`` is (N + 1,) int64, ``columns`` and ``weights`` are (E,) int64 and float32, with both directions of each
    edge among the E entries. ``colours`` is (N,) int64: neighbours differ in it. On a GPU ``rowptr`` and ``columns``
    are int32, and weights that are all 1 are one expanded element.
    """

    rowptr: torch.Tensor
    columns: torch.Tensor
    weights: torch.Tensor
    colours: torch.Tensor

    @property
    def n_points(self) -> int:
        return self.rowptr.numel() - 1

    @property
    def rows(self) -> torch.Tensor:
        """(E,) int64: the point at which each entry starts."""
        return torch.repeat_interleave(self.rowptr.diff())

    @functools.cached_property
    def degree(self) -> torch.Tensor:
        """(N,) float32: the sum of the weights of each point's edges."""
        if self.unit_weights:
            return self.rowptr.diff().float()
        return torch.zeros(self.n_points, dtype=torch.float32).index_add_(0, self.rows, self.weights)

    @functools.cached_property
    def unit_weights(self) -> bool:
        """True if every weight is 1."""
        return bool((self.weights == 1).all())

    @functools.cached_property
    def colour_counts(self) -> list[int]:
        """The number of points of each colour."""
        return torch.bincount(self.colours.long()).tolist()

    @property
    def weights_or_none(self) -> torch.Tensor | None:
        """The weights, or None if the graph is on a GPU and every weight is 1."""
        return None if self.weights.is_cuda and self.unit_weights else self.weights

    def to(self, device: torch.device) -> Graph:
        """The graph on ``device``: int32 indices on a GPU, int64 on a CPU. Raises ``ValueError`` for 2**31 entries or
        more on a GPU."""
        if device.type == self.weights.device.type:
            return self
        if device.type == "cpu":
            rowptr, columns, colours = (index.long().cpu() for index in (self.rowptr, self.columns, self.colours))
            return Graph(rowptr, columns, self.weights.cpu().contiguous(), colours)
        if max(self.columns.numel(), self.n_points) >= 2**31:
            raise ValueError(f"graph: expected fewer than 2**31 entries on a GPU, got {self.columns.numel()}")
        rowptr, columns = (index.to(torch.int32).to(device) for index in (self.rowptr, self.columns))
        unit = self.unit_weights
        weights = _ones(columns) if unit else self.weights.to(device)
        found = Graph(rowptr, columns, weights, self.colours.to(device))
        degree = self.degree.to(device)  # sums whose order is not fixed on a GPU
        found.__dict__.update(unit_weights=unit, colour_counts=self.colour_counts, degree=degree)
        if "given_places" in self.__dict__:
            found.at(self.__dict__["given_places"])
        return found

    @property
    def order(self) -> torch.Tensor:
        """The points (N,) sorted by colour, and those of a colour along a Morton curve if they have coordinates."""
        return self.moved_order[0]

    @functools.cached_property
    def moved_order(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """``order``, and if it follows a curve the place there of each point of a stable sort by colour."""
        order = torch.argsort(self._colour_keys, stable=True)
        places = self.__dict__.get("given_places")
        if self.n_points < morton.FEWEST or not isinstance(places, torch.Tensor):
            return order, None
        within = morton.along_curve(order, self._colour_keys, places)
        moved = torch.empty_like(within, dtype=torch.int32)
        moved[within] = torch.arange(len(within), dtype=torch.int32, device=within.device)
        return order[within], moved

    @property
    def _colour_keys(self) -> torch.Tensor:
        """The colours (N,) in the smallest dtype that a GPU sorts them by."""
        colours = len(self.colour_counts)
        return self.colours.to(torch.uint8 if colours <= 256 else torch.int32)

    @functools.cached_property
    def by_colour(self) -> tuple[torch.Tensor, Graph]:
        """``order``, and the graph of the points in that order."""
        order, moved = self.moved_order
        found = self.permuted(order)
        found.__dict__["moved"] = moved
        return order, found

    def drawn(self, places: torch.Tensor) -> torch.Tensor:
        """For a graph of ``by_colour`` or a part of it: the positions of the points that a stable sort by colour has at
        ``places``. Points that are drawn in this way do not depend on the Morton curve."""
        moved = self.__dict__.get("moved")
        return places if moved is None else moved[places.to(moved.device)].long()

    @functools.cached_property
    def blocks(self) -> dict[Any, Any]:
        """The blocks of processes that fits have made, and the inboxes of their groups; see ``ranks.py``."""
        return {}

    @property
    def places(self) -> torch.Tensor | None:
        """(N, 2 or 3): the positions of the points, if the graph was built from a lattice or from coordinates."""
        given = self.__dict__.get("given_places")
        if given is None or isinstance(given, torch.Tensor):
            return given
        axes = [torch.arange(int(size), dtype=torch.float32, device=self.columns.device) for size in given]
        return torch.stack([axis.flatten() for axis in torch.meshgrid(*axes, indexing="ij")], 1)

    def at(self, places: torch.Tensor | tuple[int, ...]) -> Graph:
        """This graph, with the positions of its points: (N, 2 or 3), or the shape of a lattice."""
        self.__dict__["given_places"] = places
        return self

    def permuted(self, order: torch.Tensor) -> Graph:
        """The graph of the points ``order`` (N,): point i of the result is point ``order[i]`` of this one."""
        place = torch.empty_like(order)
        place[order] = torch.arange(order.numel(), device=order.device)
        if self.weights.is_cuda:
            return self._permuted_rows(order, place.int())
        rowptr, columns, weights = compress(place[self.rows], place[self.columns], self.weights, self.n_points)
        return Graph(rowptr, columns, weights, self.colours[order])

    def _permuted_rows(self, order: torch.Tensor, place: torch.Tensor) -> Graph:
        """``permuted`` without a sort: the entries of each row keep their order. ``place`` inverts ``order``."""
        rowptr, columns, weights = self.rows_of(order, place)
        found = Graph(rowptr, columns, weights, self.colours[order])
        degree = self.degree[order]
        found.__dict__.update(unit_weights=self.unit_weights, degree=degree, colour_counts=self.colour_counts)
        return found

    def rows_of(
        self, order: torch.Tensor, place: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(rowptr, columns, weights) of the points ``order``; column j is ``place[j]``, or j without ``place``."""
        counts = self.rowptr.diff()[order]
        rowptr = self.rowptr.new_zeros(len(order) + 1)
        rowptr[1:] = counts.cumsum(0)
        ends = rowptr[::_ROWS].tolist()
        ends = [*ends, int(rowptr[-1])] if len(order) % _ROWS else ends
        columns, unit = self.columns.new_empty(ends[-1]), self.unit_weights
        weights = self.weights[:1].expand(ends[-1]) if unit else self.weights.new_empty(ends[-1])
        shift = self.rowptr[order] - rowptr[:-1]
        for number, (begin, end) in enumerate(pairwise(ends)):
            part = slice(number * _ROWS, (number + 1) * _ROWS)
            entries = torch.repeat_interleave(shift[part], counts[part], output_size=end - begin)
            entries += torch.arange(begin, end, dtype=entries.dtype, device=entries.device)
            found = self.columns[entries]
            columns[begin:end] = found if place is None else place[found]
            if not unit:
                weights[begin:end] = self.weights[entries]
        return rowptr, columns, weights

    def subgraph(self, kept: torch.Tensor) -> Graph:
        """The graph of the points where ``kept`` (N,) bool is true, and of the edges between them."""
        rows, both = self.rows, kept[self.rows] & kept[self.columns]
        place = kept.cumsum(0) - 1
        number = int(kept.sum())
        parts = compress(place[rows[both]], place[self.columns[both]], self.weights[both], number)
        return Graph(*parts, self.colours[kept])


def with_indices_of_device(graph: Graph) -> Graph:
    """``graph`` with weights of 1: unchanged on a CPU, with int32 indices on a GPU."""
    if not graph.weights.is_cuda:
        return graph
    if max(graph.columns.numel(), graph.n_points) >= 2**31:
        raise ValueError(f"graph: expected fewer than 2**31 entries on a GPU, got {graph.columns.numel()}")
    columns = graph.columns.int()
    found = Graph(graph.rowptr.int(), columns, _ones(columns), graph.colours)
    found.__dict__["unit_weights"] = True
    return found


def unit_graph(counts: torch.Tensor, columns: torch.Tensor, colours: torch.Tensor) -> Graph:
    """The graph with weights 1 in which point i has the next ``counts[i]`` entries of ``columns`` as neighbours."""
    rowptr = torch.zeros(len(counts) + 1, dtype=columns.dtype, device=columns.device)
    rowptr[1:] = counts.cumsum(0)
    weights = _ones(columns) if columns.is_cuda else torch.ones(columns.shape, dtype=torch.float32)
    found = Graph(rowptr, columns, weights, colours.to(torch.int64))
    found.__dict__["unit_weights"] = True
    return found


def _ones(columns: torch.Tensor) -> torch.Tensor:
    """(E,) float32 ones: one element, expanded."""
    return torch.ones(1, dtype=torch.float32, device=columns.device).expand(columns.shape)


def generator_on(device: torch.device, generator: torch.Generator) -> torch.Generator:
    """``generator``, which is on the CPU, or for a GPU a new one there whose seed is drawn from it."""
    if device.type != "cuda":
        return generator
    return torch.Generator(device).manual_seed(int(torch.randint(2**62, (1,), generator=generator)))


def compress(
    rows: torch.Tensor, columns: torch.Tensor, weights: torch.Tensor, n_points: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sort entries by row, then column, into (rowptr, columns, weights)."""
    order = torch.argsort(rows * n_points + columns)
    rowptr = torch.zeros(n_points + 1, dtype=torch.int64, device=rows.device)
    rowptr[1:] = torch.bincount(rows, minlength=n_points).cumsum(0)
    return rowptr, columns[order], weights[order]


def symmetric(
    rows: torch.Tensor,
    columns: torch.Tensor,
    n_points: int,
    weights: torch.Tensor | None = None,
    colours: torch.Tensor | None = None,
) -> Graph:
    """The graph that joins i and j if the edge (i, j) or (j, i) is given, with the larger of their weights.

    ``rows`` and ``columns`` are (M,) int64. Self-loops and weights of 0 are dropped. Without ``colours`` a greedy
    colouring is computed.
    """
    ones = torch.ones(rows.numel(), dtype=torch.float32, device=rows.device)
    given = ones if weights is None else weights.to(torch.float32)
    kept = (rows != columns) & (given > 0)
    rows, columns, given = rows[kept], columns[kept], given[kept]
    keys = torch.cat([rows * n_points + columns, columns * n_points + rows])
    unique, inverse = torch.unique(keys, return_inverse=True)
    larger = torch.zeros(unique.numel(), dtype=torch.float32, device=rows.device).scatter_reduce_(
        0, inverse, torch.cat([given, given]), "amax"
    )
    starts, ends = unique // n_points, unique % n_points
    rowptr, ends, larger = compress(starts, ends, larger, n_points)
    if colours is None:
        colours = greedy_colouring(rowptr, ends)
    return Graph(rowptr, ends, larger, colours)


def greedy_colouring(rowptr: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """(N,) int64 colours, at most one more than the largest degree, by the algorithm of Jones and Plassmann.

    In each round the points of larger degree than all their uncoloured neighbours (ties broken by a fixed random order)
    take the smallest colour that no neighbour has.
    """
    n, device = rowptr.numel() - 1, rowptr.device
    rows = torch.repeat_interleave(torch.arange(n, device=device), rowptr.diff())
    shuffled = torch.randperm(n, generator=torch.Generator().manual_seed(0)).to(device)
    priority = rowptr.diff() * n + shuffled
    colours = torch.full((n,), -1, dtype=torch.int64, device=device)
    while rows.numel():
        highest = torch.full((n,), -1, dtype=torch.int64, device=device)
        open_end = colours[columns] < 0
        highest.scatter_reduce_(0, rows, torch.where(open_end, priority[columns], -1), "amax")
        chosen = (colours < 0) & (priority > highest)
        points = torch.nonzero(chosen).flatten()
        number = torch.empty(n, dtype=torch.int64, device=device)
        number[points] = torch.arange(points.numel(), device=device)
        seen = chosen[rows] & ~open_end
        used = torch.zeros(points.numel(), int(colours.max()) + 2, dtype=torch.bool, device=device)
        used[number[rows[seen]], colours[columns[seen]]] = True
        colours[points] = used.to(torch.int8).argmin(1)
        remaining = colours[rows] < 0
        rows, columns = torch.cat([rows[remaining], rows[:0]]), columns[remaining]
    return colours.clamp_(min=0)


def from_edges(edges: Any, n_points: int, weights: Any = None) -> Graph:
    """A graph of ``n_points`` points from ``edges`` (M, 2), integer pairs in either direction, and ``weights`` (M,).

    A graph that is not symmetric is made so: i and j are neighbours if either direction is given, and the larger weight
    counts. Raises ``ValueError`` for an index outside [0, n_points), a weight that is negative or not finite, or a
    wrong shape or dtype.
    """
    n_points = check_count("n_points", n_points, 0)
    given = np.ascontiguousarray(edges)
    if not given.size:  # an empty list has one axis, and NumPy makes it of floats
        given = np.empty((0, 2), np.int64)
    if given.ndim != 2 or given.shape[1] != 2:
        raise ValueError(f"edges: expected (M, 2), got {given.shape}")
    if given.dtype.kind not in "iu":
        advice = "; from_sparse(scipy.sparse.csr_array(matrix)) takes a matrix" if given.dtype.kind == "b" else ""
        raise ValueError(f"edges: expected integers, the numbers of two points, got {given.dtype}{advice}")
    pairs = torch.as_tensor(given.astype(np.int64))
    if pairs.numel() and (int(pairs.min()) < 0 or int(pairs.max()) >= n_points):
        raise ValueError(f"edges: expected indices in [0, {n_points}), got {int(pairs.min())} to {int(pairs.max())}")
    values = None
    if weights is not None:
        numbers = np.ascontiguousarray(weights)
        if numbers.dtype.kind not in "biuf":
            raise ValueError(f"weights: expected real numbers, got {numbers.dtype}")
        with np.errstate(over="ignore"):  # infinity is refused below
            values = torch.as_tensor(numbers.astype(np.float32))
        if values.shape != pairs.shape[:1]:
            raise ValueError(f"weights: expected ({pairs.shape[0]},), one an edge, got {tuple(values.shape)}")
        if not bool(torch.isfinite(values).all()) or bool((values < 0).any()):
            raise ValueError("weights: expected finite values of float32 that are not negative")
    return symmetric(pairs[:, 0].contiguous(), pairs[:, 1].contiguous(), n_points, values)


def from_sparse(matrix: Any) -> Graph:
    """A graph from an (N, N) adjacency matrix: a scipy sparse matrix, or a tuple (rowptr, columns) or (rowptr, columns,
    weights) of compressed sparse rows. Made symmetric as in ``from_edges``, whose errors it raises.
    """
    if isinstance(matrix, tuple):
        if len(matrix) not in (2, 3):
            raise ValueError(
                f"graph: expected (rowptr, columns) or (rowptr, columns, weights), got {len(matrix)} arrays"
            )
        rowptr, columns = (np.asarray(part) for part in matrix[:2])
        counts = np.diff(rowptr)
        if rowptr.ndim != 1 or not rowptr.size or rowptr[0] != 0 or rowptr[-1] != columns.size or (counts < 0).any():
            raise ValueError("graph: expected rowptr to rise from 0 to the number of columns")
        rows = np.repeat(np.arange(counts.size), counts)
        weights = np.asarray(matrix[2]) if len(matrix) == 3 else None
        return from_edges(np.stack([rows, columns.astype(np.int64, casting="same_kind")], 1), counts.size, weights)
    if not hasattr(matrix, "tocoo"):
        raise TypeError(
            "graph: expected a Graph, a scipy sparse matrix or (rowptr, columns[, weights]), got "
            f"{type(matrix).__name__}; from_edges(edges, n_points) takes pairs of points, and "
            "scipy.sparse.csr_array a dense matrix"
        )
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"graph: expected a square matrix, got {matrix.shape}")
    entries = matrix.tocoo()
    pairs = np.stack([entries.row, entries.col], 1).astype(np.int64)
    return from_edges(pairs, matrix.shape[0], entries.data)
