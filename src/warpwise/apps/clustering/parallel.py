"""Points in one process: in one piece, or in host memory and copied to a device in blocks. ``ranks.py`` has the Morton
blocks of several processes, and the sums over all points and the exchange of values that they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch

from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.morton import morton_keys


class Chunk(NamedTuple):
    """Nearby points of one colour, and their neighbours.

    ``ids`` are ``own`` points, then ``halo`` of their neighbours; ``graph`` is that of ``ids``, empty for the halo.
    """

    ids: torch.Tensor
    own: int
    halo: int
    graph: Graph


Part: TypeAlias = tuple[int, ...] | Chunk
"""Bounds of colours, or points that are copied to a device."""


class Alone:
    """All ``n_points`` points are in this process; ``own`` of them are its own."""

    share: int  # points of a process, the same number in each

    def __init__(self, n_points: int) -> None:
        self.n_points = self.own = self.share = n_points

    def sums(self, *parts: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Sums of the tensors over the processes."""
        return parts

    def total(self, parts: Sequence[tuple[torch.Tensor | None, ...]]) -> tuple[torch.Tensor | None, ...]:
        """The sums of ``parts``, tuples of the same kind, over the tuples and the processes."""
        return tuple(_added(found) for found in zip(*parts, strict=True))

    def agreed(self, part: torch.Tensor) -> torch.Tensor:
        """The tensor of the first process."""
        return part

    def sum(self, part: torch.Tensor) -> torch.Tensor:
        found = self.sums(part)[0]
        assert found is not None
        return found

    def largest(self, part: torch.Tensor) -> torch.Tensor:
        """The elementwise maximum over the processes."""
        return part

    def counts(self, graph: Graph) -> list[int]:
        """The number of own points of each colour."""
        return graph.colour_counts

    def steps(self, q: torch.Tensor, bounds: tuple[int, ...]) -> Iterator[Part]:
        """The parts that are updated one after another; ``bounds`` are the ends of the colours."""
        yield bounds

    def moved(self, *parts: Any) -> tuple[Any, ...]:
        """Tensors and graphs on the device of the updates."""
        return parts

    def exchange(self, values: torch.Tensor, colour: int | None = None) -> None:
        """Fetch the rows of the halo of ``values`` (points, ...), of one colour or of all, from their owners."""

    def gathered(self, values: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        """The rows of ``values`` (points, ...) at ``positions`` among all points, sorted by colour; None for all."""
        return values if positions is None else values[positions.to(values.device)]

    def rows_of_all(self, values: torch.Tensor, order: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the rows of ``values`` (points, ...) of all points, in parts, each with the numbers of its points.
        ``order`` (N,) are all points sorted by colour."""
        yield self.gathered(values), order


class Streams(Alone):
    """Points in host memory; one ``Chunk`` at a time is updated on ``device``."""

    def __init__(self, graph: Graph, device: torch.device, block: torch.Tensor) -> None:
        """``block`` (N,) is the block of each point of ``graph``, whose points are sorted by colour."""
        super().__init__(graph.n_points)
        self.device = device
        key = graph.colours * (int(block.max()) + 1) + block
        order = torch.argsort(key, stable=True)
        counts = torch.unique_consecutive(key[order], return_counts=True)[1].tolist()
        self.chunks = [self._chunk(graph, own) for own in order.split(counts)]

    @staticmethod
    def _chunk(graph: Graph, own: torch.Tensor) -> Chunk:
        counts = graph.rowptr.diff()[own]
        rows = torch.repeat_interleave(torch.arange(len(own)), counts)
        within = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[rows]
        entries = graph.rowptr[own][rows] + within
        halo, columns = torch.unique(graph.columns[entries], return_inverse=True)
        ids = torch.cat([own, halo])  # neighbours have other colours
        rowptr = torch.zeros(len(ids) + 1, dtype=torch.int64)
        rowptr[1 : len(own) + 1] = counts.cumsum(0)
        rowptr[len(own) + 1 :] = len(entries)
        local = Graph(rowptr, columns + len(own), graph.weights[entries], graph.colours[ids])
        return Chunk(ids, len(own), len(halo), local)

    def steps(self, q: torch.Tensor, bounds: tuple[int, ...]) -> Iterator[Part]:
        yield from self.chunks

    def moved(self, *parts: Any) -> tuple[Any, ...]:
        return tuple(None if part is None else part.to(self.device) for part in parts)


def _added(parts: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    given = [part for part in parts if part is not None]
    return sum(given[1:], given[0]) if given else None


def morton_blocks(places: torch.Tensor | None, n_points: int, blocks: int, device: Any = "cpu") -> torch.Tensor:
    """(N,) int32: the block of each point, of about equal sizes, along a Morton curve through ``places`` (N, 2 or 3);
    in the order of the points if there are none."""
    ends = [n_points * part // blocks for part in range(blocks + 1)]
    sizes = torch.tensor(ends, device=device).diff()
    block = torch.repeat_interleave(torch.arange(blocks, dtype=torch.int32, device=device), sizes)
    if places is None:
        return block
    result = torch.empty_like(block)
    result[torch.argsort(morton_keys(places.to(device)), stable=True)] = block
    return result
