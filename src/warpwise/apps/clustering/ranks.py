"""Points in Morton blocks of several processes: sums over all points and exchange of values of the halo.

The arrays of a process have its own points first, sorted by colour, then the halo: the neighbours of its points that
other processes own, sorted by colour and owner, whose values ``exchange`` fetches. The rows of the halo are empty in
its graph. The blocks are made on the device of the graph; a graph stores them, and later fits reuse them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.halo import Peers, peers_of
from warpwise.apps.clustering.parallel import Alone, Part, morton_blocks


class Swap(NamedTuple):
    """Rows that a process sends, sorted by receiver, and rows that it fetches, sorted by sender; how many of each."""

    sent: torch.Tensor
    sent_to: list[int]
    fetched: torch.Tensor | slice
    fetched_from: list[int]


class Block(NamedTuple):
    """The points of a process. ``positions`` (own,) are the ranks of its own points in the order by colour, ascending;
    ``ids`` (own + halo,) are the numbers of the points of its arrays, and ``graph`` is their graph. ``counts`` are the
    numbers of own points of each colour; ``swaps`` are the exchanges for each colour, and ``all`` is that of all
    colours. ``everyone`` are the numbers of the own points of each process.
    """

    own: int
    positions: torch.Tensor
    ids: torch.Tensor
    graph: Graph
    counts: list[int]
    swaps: list[Swap]
    all: Swap
    everyone: list[torch.Tensor]


def block_of(graph: Graph, rank: int, size: int) -> Block:
    """The block of process ``rank`` of ``size``."""
    if (rank, size) not in graph.blocks:
        graph.blocks[rank, size] = _block(graph, rank, size)
    return graph.blocks[rank, size]


def _block(graph: Graph, rank: int, size: int) -> Block:
    n, device, colours = graph.n_points, graph.columns.device, len(graph.colour_counts)
    owner = morton_blocks(graph.places, n, size, device)
    owner_by_colour = owner[graph.order]
    positions = torch.nonzero(owner_by_colour == rank).flatten()
    everyone = [graph.order[torch.nonzero(owner_by_colour == process).flatten()] for process in range(size)]
    own = everyone[rank]
    del owner_by_colour
    rowptr, columns, weights = graph.rows_of(own)
    # The graph has both directions of an edge: the points that a process receives are those that the other one sends.
    # Both sort them by colour, peer and number.
    edges = _where(owner, columns, rank)
    rows, across = torch.searchsorted(rowptr, edges.to(rowptr.dtype), right=True) - 1, columns[edges].long()
    peers = owner[across].long()

    def key(points: torch.Tensor) -> torch.Tensor:
        return (graph.colours[points].long() * size + peers) * n + points

    halo = torch.unique(key(across))
    sent, inverse = torch.unique(key(own[rows]), return_inverse=True)
    from_row = torch.empty_like(sent)
    from_row[inverse] = rows
    ids = torch.cat([own, halo % n])
    place = torch.empty(n, dtype=columns.dtype, device=device)
    place[ids] = torch.arange(len(ids), dtype=columns.dtype, device=device)
    for part in columns.split(1 << 26):
        part.copy_(place[part])
    del place, owner
    rowptr = torch.cat([rowptr, rowptr[-1:].expand(len(halo))])
    local = Graph(rowptr, columns, weights, graph.colours[ids])
    degree = torch.cat([graph.degree[own], graph.degree.new_zeros(len(halo))])
    local.__dict__.update(unit_weights=graph.unit_weights, degree=degree, moved=graph.moved_order[1])

    def counted(keys: torch.Tensor) -> list[list[int]]:
        return torch.bincount(keys // n, minlength=colours * size).view(colours, size).tolist()

    sends, fetches = counted(sent), counted(halo)
    ends = list(accumulate(map(sum, sends), initial=0))
    starts = list(accumulate(map(sum, fetches), initial=len(own)))
    swaps = [
        Swap(from_row[ends[c] : ends[c + 1]], sends[c], slice(starts[c], starts[c + 1]), fetches[c])
        for c in range(colours)
    ]
    by_peer = [torch.argsort(keys // n % size, stable=True) for keys in (sent, halo)]
    totals = [[sum(row[peer] for row in counts) for peer in range(size)] for counts in (sends, fetches)]
    whole = Swap(from_row[by_peer[0]], totals[0], len(own) + by_peer[1], totals[1])
    counts = torch.bincount(graph.colours[own].long(), minlength=colours).tolist()
    return Block(len(own), positions, ids, local, counts, swaps, whole, everyone)


def _where(owner: torch.Tensor, columns: torch.Tensor, rank: int) -> torch.Tensor:
    """The entries of ``columns`` whose points are not of process ``rank``."""
    found = [torch.nonzero(owner[part] != rank).flatten() for part in columns.split(1 << 26)]
    return torch.cat([part + (number << 26) for number, part in enumerate(found)]) if found else columns.long()


class Ranks(Alone):
    """One block of the points of ``graph`` for each process of a torch.distributed ``group``, on ``device``.

    With NCCL tensors stay on the GPU. With gloo and a GPU they are copied through host memory.
    """

    def __init__(self, group: Any, device: torch.device, graph: Graph) -> None:
        super().__init__(graph.n_points)
        self.group, self.device = group, device
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.n_points < self.size:
            raise ValueError(f"group: expected at most {self.n_points} processes, one for each point, got {self.size}")
        self.wire = torch.device("cpu") if dist.get_backend(group) == "gloo" else device
        self.share = -(-self.n_points // self.size)
        self.block = block_of(graph, self.rank, self.size)
        self.own, self.ids, self.graph = self.block.own, self.block.ids, self.block.graph
        self.peers = None if self.wire.type == "cpu" else self._peers(graph)

    def _peers(self, graph: Graph) -> Peers | None:
        """The inboxes of the processes; a graph stores them, and later fits by the same group reuse them."""
        swaps = self.block.swaps
        if self.group not in graph.blocks:
            counts = [swap.sent_to for swap in swaps], [swap.fetched_from for swap in swaps]
            graph.blocks[self.group] = peers_of(self.group, self.device, *counts)
        return graph.blocks[self.group]

    def _sum(self, part: torch.Tensor, operation: Any = dist.ReduceOp.SUM) -> torch.Tensor:
        """The sum of ``part``, which may be overwritten, over the processes."""
        found = part.to(self.wire)
        if self.peers is not None and operation == dist.ReduceOp.SUM and self.peers.exchange.sum(found):
            return found
        dist.all_reduce(found, operation, group=self.group)
        return found.to(part.device)

    def sums(self, *parts: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return self.total([parts])

    def total(self, parts: Sequence[tuple[torch.Tensor | None, ...]]) -> tuple[torch.Tensor | None, ...]:
        first = parts[0]
        given = [part for found in parts for part in found if part is not None]
        if not given:
            return first
        flat = torch.cat([part.to(self.device).flatten() for part in given]).view(len(parts), -1)
        if self.peers is not None and self.peers.exchange.total(flat):
            summed = flat[0]
        else:
            summed = self._sum(flat.sum(0, dtype=torch.float64))
        kinds = {part.dtype for part in given}
        summed = summed.to(kinds.pop()) if len(kinds) == 1 else summed
        found = iter(summed.split([part.numel() for part in first if part is not None]))
        return tuple(None if part is None else next(found).view(part.shape).to(part) for part in first)

    def agreed(self, part: torch.Tensor) -> torch.Tensor:
        found = part.to(self.wire, copy=True)
        dist.broadcast(found, self._global(0), group=self.group)
        return found.to(part.device)

    def _global(self, rank: int) -> int:
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def largest(self, part: torch.Tensor) -> torch.Tensor:
        return self._sum(part.to(self.device, copy=True), dist.ReduceOp.MAX).to(part)

    def finite(self, values: torch.Tensor) -> bool:
        """Whether ``values`` of all processes are finite; see ``Estimator._checked``."""
        if math.isfinite(float(self.sum(values.sum().double()))):
            return True
        return not float(self.sum((~torch.isfinite(values)).sum().double()))

    def counts(self, graph: Graph) -> list[int]:
        return self.block.counts

    def steps(self, q: torch.Tensor, bounds: tuple[int, ...]) -> Iterator[Part]:
        for colour, part in enumerate(pairwise(bounds)):
            yield part
            self.exchange(q, colour)

    def exchange(self, values: torch.Tensor, colour: int | None = None) -> None:
        swap = self.block.all if colour is None else self.block.swaps[colour]
        if colour is not None and self._swapped(values, colour):
            return
        # Adjacent rows are received in place.
        here = isinstance(swap.fetched, slice) and self.wire == values.device and values.is_contiguous()
        sent = values.index_select(0, swap.sent).to(self.wire)
        shape = (sum(swap.fetched_from), *values.shape[1:])
        fetched = values[swap.fetched] if here else sent.new_empty(shape)
        dist.all_to_all_single(fetched, sent, swap.fetched_from, swap.sent_to, group=self.group)
        if not here:
            values[swap.fetched] = fetched.to(values.device)

    def _swapped(self, values: torch.Tensor, colour: int) -> bool:
        """Exchange the rows of one colour through inboxes and return True, or False if the group must do so."""
        sent, fetched = self.block.swaps[colour].sent, self.block.swaps[colour].fetched
        return (
            self.peers is not None
            and isinstance(fetched, slice)
            and self.peers.swap(values, colour, sent, fetched.start)
        )

    def rows_of_all(self, values: torch.Tensor, order: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        if self.wire.type == "cpu":
            yield from super().rows_of_all(values, order)
            return
        # Blocks differ by at most one point; the last row of a shorter one is not used.
        mine = values[: self.share].contiguous()
        if len(mine) < self.share:
            mine = torch.cat([mine, mine.new_zeros(1, *mine.shape[1:])])
        found = mine.new_empty(self.size, *mine.shape)
        arriving = dist.all_gather_into_tensor(found, mine, group=self.group, async_op=True)
        everyone = self.block.everyone
        yield mine[: self.own], everyone[self.rank]
        arriving.wait()
        for process, (rows, ids) in enumerate(zip(found, everyone, strict=True)):
            if process != self.rank:
                yield rows[: len(ids)], ids

    def gathered(self, values: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        # Each row is nonzero in only one process, so the sum is exact.
        mine = self.block.positions
        if positions is None:
            found = values.new_zeros(self.n_points, *values.shape[1:])
            found[mine] = values[: self.own]
        else:
            positions = positions.to(mine.device)
            here = torch.searchsorted(mine, positions).clamp(max=max(len(mine) - 1, 0))
            found = values.new_zeros(len(positions), *values.shape[1:])
            if self.own:
                owned = (mine[here] == positions).view(-1, *[1] * (values.dim() - 1))
                found = torch.where(owned, values[here], found)
        return self._sum(found)
