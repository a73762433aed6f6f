"""Graphs of regular lattices, whose colourings are closed forms."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch

from warpwise.apps.clustering.graph import Graph, symmetric


def grid(shape: Sequence[int], connectivity: str = "full") -> Graph:
    """The graph of a 2-D or 3-D grid, its points in row-major order.

    ``connectivity="full"`` joins points that share a face, an edge or a corner (8 neighbours in 2-D, 26 in 3-D; 4 and 8
    colours), ``"faces"`` only those that share a face (4 and 6 neighbours; 2 colours). Raises ``ValueError`` for
    another connectivity, another number of axes, or an axis without points.
    """
    if connectivity not in ("full", "faces"):
        raise ValueError(f'connectivity: expected "full" or "faces", got {connectivity!r}')
    whole = isinstance(shape, Sequence | np.ndarray) and all(isinstance(size, int | np.integer) for size in shape)
    if not whole or len(shape) not in (2, 3) or any(size < 1 for size in shape):
        raise ValueError(f"shape: expected two or three positive integers, got {shape!r}")
    axes = torch.meshgrid(*(torch.arange(int(size)) for size in shape), indexing="ij")
    zero = (0,) * len(axes)
    steps = [step for step in itertools.product((-1, 0, 1), repeat=len(axes)) if step > zero]
    if connectivity == "faces":
        steps = [step for step in steps if sum(map(abs, step)) == 1]
        colours = torch.stack(axes).sum(0) % 2
    else:
        colours = torch.stack([axis % 2 << place for place, axis in enumerate(axes)]).sum(0)
    return _joined([_pairs(axes, step) for step in steps], colours)


def hexagonal(rows: int, columns: int) -> Graph:
    """The graph of a hexagonal lattice: ``rows`` rows of ``columns`` points, odd rows moved right by half a step.

    A point has up to 6 neighbours and one of 3 colours. Points are in row-major order. Raises ``ValueError`` for a size
    below 1.
    """
    if rows < 1 or columns < 1:
        raise ValueError(f"hexagonal: expected positive sizes, got ({rows}, {columns})")
    axes = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    row, column = axes
    odd = row % 2
    # In axial coordinates (column - (row - odd) / 2, row) each step to a neighbour changes their difference by 1 or 2.
    colours = (column - (row - odd) // 2 - row) % 3
    pairs = [_pairs(axes, step) for step in ((0, 1), (1, 0))]
    pairs += [_pairs(axes, (1, -1), odd == 0), _pairs(axes, (1, 1), odd == 1)]
    return _joined(pairs, colours)


def _pairs(
    axes: Sequence[torch.Tensor], step: Sequence[int], where: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The points (M,) from which ``step`` stays on the lattice, and the points (M,) that it leads to."""
    shape = axes[0].shape
    inside = torch.ones(shape, dtype=torch.bool) if where is None else where.clone()
    for axis, move, size in zip(axes, step, shape, strict=True):
        inside &= (axis + move >= 0) & (axis + move < size)
    starts = torch.arange(inside.numel()).view(shape)[inside]
    strides = torch.empty(shape, device="meta").stride()
    return starts, starts + sum(move * stride for move, stride in zip(step, strides, strict=True))


def _joined(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], colours: torch.Tensor) -> Graph:
    starts, ends = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    return symmetric(starts, ends, colours.numel(), colours=colours.flatten())
