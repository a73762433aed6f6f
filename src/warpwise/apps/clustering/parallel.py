"""Points in one process, or in Morton blocks of several: sums over all points and exchange of values of the halo.

The arrays of a process have its own points first, sorted by colour, then the halo: the neighbours of its points that
other processes own, whose values ``exchange`` fetches. The rows of the halo are empty in its graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import torch

from warpwise.apps.clustering.graph import Graph, compress


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


class Ranks(Alone):
    """One block of points for each process of a torch.distributed ``group``, on ``device``."""

    def __init__(
        self, group: Any, device: torch.device, owner: torch.Tensor, order: torch.Tensor, graph: Graph
    ) -> None:
        """``owner`` (N,) is the rank of each point, ``order`` (N,) the points sorted by colour."""
        super().__init__(graph.n_points)
        self.group, self.device = group, device
        self.rank, self.size = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
        self.share = -(-self.n_points // self.size)
        self.positions = torch.nonzero(owner[order] == self.rank).flatten()
        own = order[self.positions]
        self.own = len(own)
        # The graph has both directions of an edge: the points that a rank receives are those that the other one sends.
        rows, across = graph.rows, owner[graph.rows] != owner[graph.columns]
        border, other = rows[across], owner[graph.columns[across]]
        wanted = torch.unique(torch.stack([owner[border], other, graph.colours[border], border], 1), dim=0)
        place = torch.full((self.n_points,), -1)
        place[own] = torch.arange(self.own)
        sends = wanted[wanted[:, 0] == self.rank]
        fetches = wanted[wanted[:, 1] == self.rank]
        self.ids = torch.cat([own, fetches[:, 3]])
        """(own + halo,): the points of the arrays of this process."""
        place[fetches[:, 3]] = self.own + torch.arange(len(fetches))
        self.graph = self._local(graph, own, place)
        self.colours = int(graph.colours.max()) + 1
        self.lists: dict[int | None, list[tuple[int, torch.Tensor, torch.Tensor]]] = {}
        for colour in (None, *range(self.colours)):
            lists = []
            for peer in range(self.size):
                sent = sends[(sends[:, 1] == peer) & (colour is None or sends[:, 2] == colour)]
                fetched = fetches[(fetches[:, 0] == peer) & (colour is None or fetches[:, 2] == colour)]
                if len(sent) + len(fetched):
                    lists.append((peer, place[sent[:, 3]].to(device), place[fetched[:, 3]].to(device)))
            self.lists[colour] = lists

    def _local(self, graph: Graph, own: torch.Tensor, place: torch.Tensor) -> Graph:
        mine = torch.zeros(self.n_points, dtype=torch.bool)
        mine[own] = True
        rows = graph.rows
        kept = mine[rows]
        parts = compress(place[rows[kept]], place[graph.columns[kept]], graph.weights[kept], len(self.ids))
        return Graph(*parts, graph.colours[self.ids])

    def sums(self, *parts: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        given = [part for part in parts if part is not None]
        if not given:
            return parts
        flat = torch.cat([part.to(self.device, torch.float64).flatten() for part in given])
        torch.distributed.all_reduce(flat, group=self.group)
        found = iter(flat.split([part.numel() for part in given]))
        return tuple(None if part is None else next(found).view(part.shape).to(part) for part in parts)

    def largest(self, part: torch.Tensor) -> torch.Tensor:
        found = part.to(self.device, copy=True)
        torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX, group=self.group)
        return found.to(part)

    def counts(self, graph: Graph) -> list[int]:
        return torch.bincount(graph.colours[: self.own], minlength=self.colours).tolist()

    def steps(self, q: torch.Tensor, bounds: tuple[int, ...]) -> Iterator[Part]:
        for colour, part in enumerate(pairwise(bounds)):
            yield part
            self.exchange(q, colour)

    def exchange(self, values: torch.Tensor, colour: int | None = None) -> None:
        operations, waiting = [], []
        for peer, sent, fetched in self.lists[colour]:
            to = peer if self.group is None else torch.distributed.get_global_rank(self.group, peer)
            if len(sent):
                operations.append(torch.distributed.P2POp(torch.distributed.isend, values[sent], to, self.group))
            if len(fetched):
                buffer = values.new_empty(len(fetched), *values.shape[1:])
                operations.append(torch.distributed.P2POp(torch.distributed.irecv, buffer, to, self.group))
                waiting.append((fetched, buffer))
        for request in torch.distributed.batch_isend_irecv(operations) if operations else ():
            request.wait()
        for fetched, buffer in waiting:
            values[fetched] = buffer

    def gathered(self, values: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        # Each row is nonzero in only one process, so the sum is exact.
        count = self.n_points if positions is None else len(positions)
        found = torch.zeros(count, *values.shape[1:], dtype=values.dtype, device=self.device)
        if positions is None:
            found[self.positions.to(self.device)] = values[: self.own].to(self.device)
        else:
            place = torch.full((self.n_points,), -1)
            place[self.positions] = torch.arange(self.own)
            here = place[positions]
            mine = torch.nonzero(here >= 0).flatten()
            found[mine.to(self.device)] = values[here[mine].to(values.device)].to(self.device)
        torch.distributed.all_reduce(found, group=self.group)
        return found.to(values.device)


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


def morton_blocks(places: torch.Tensor | None, n_points: int, blocks: int) -> torch.Tensor:
    """(N,) int64: the block of each point, of about equal sizes, along a Morton curve through ``places`` (N, 2 or 3);
    in the order of the points if there are none."""
    block = torch.empty(n_points, dtype=torch.int64)
    order = torch.arange(n_points)
    if places is not None:
        low, axes = places.amin(0), places.shape[1]
        bits = 62 // axes
        extent = float((places - low).max()) or 1.0
        cells = ((places - low) / extent * (2**bits - 1)).long()
        keys = torch.zeros(n_points, dtype=torch.int64)
        for bit in range(bits):
            for axis in range(axes):
                keys |= (cells[:, axis] >> bit & 1) << (bit * axes + axis)
        order = torch.argsort(keys, stable=True)
    ends = [n_points * part // blocks for part in range(blocks + 1)]
    for number, (begin, end) in enumerate(pairwise(ends)):
        block[order[begin:end]] = number
    return block
