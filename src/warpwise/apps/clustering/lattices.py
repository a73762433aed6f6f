"""Graphs of regular lattices, whose edges and colourings are closed forms."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from warpwise.apps.clustering.graph import Graph, unit_graph


def grid(shape: Sequence[int], connectivity: str = "full", device: Any = "cpu") -> Graph:
    """The graph of a 2-D or 3-D grid, its points in row-major order, on ``device``.

    ``connectivity="full"`` joins points that share a face, an edge or a corner (8 neighbours in 2-D, 26 in 3-D; 4 and 8
    colours), ``"faces"`` only those that share a face (4 and 6 neighbours; 2 colours). ``"auto"`` is "full" in 2-D and
    "faces" in 3-D. Raises ``ValueError`` for another connectivity, another number of axes, or an axis without points.
    """
    if connectivity not in ("full", "faces", "auto"):
        raise ValueError(f'connectivity: expected "full", "faces" or "auto", got {connectivity!r}')
    check_shape(shape)
    axes = _axes(shape, device)
    steps = [step for step in itertools.product((-1, 0, 1), repeat=len(axes)) if any(step)]
    if connectivity == "faces" or (connectivity == "auto" and len(shape) == 3):
        steps = [step for step in steps if sum(map(abs, step)) == 1]
        colours = sum(axes) % 2
    else:
        colours = sum(axis % 2 << place for place, axis in enumerate(axes))
    return _joined(shape, axes, [(step, None) for step in steps], colours)


def check_shape(shape: Any) -> None:
    """Raise ``ValueError`` unless ``shape`` is that of a 2-D or 3-D grid with points."""
    whole = isinstance(shape, Sequence | np.ndarray) and all(isinstance(size, int | np.integer) for size in shape)
    if not whole or len(shape) not in (2, 3) or any(size < 1 for size in shape):
        raise ValueError(f"shape: expected two or three positive integers, got {shape!r}")


def hexagonal(rows: int, columns: int, device: Any = "cpu") -> Graph:
    """The graph of a hexagonal lattice: ``rows`` rows of ``columns`` points, odd rows moved right by half a step.

    A point has up to 6 neighbours and one of 3 colours. Points are in row-major order; the graph is on ``device``.
    Raises ``ValueError`` for a size that is not a positive integer.
    """
    if any(isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1 for size in (rows, columns)):
        raise ValueError(f"hexagonal: expected positive integers, got ({rows!r}, {columns!r})")
    row, column = axes = _axes((rows, columns), device)
    odd = row % 2
    # In axial coordinates (column - (row - odd) / 2, row) each step to a neighbour changes their difference by 1 or 2.
    colours = (column - (row - odd) // 2 - row) % 3
    even, odd = odd == 0, odd == 1
    steps = [((-1, -1), even), ((-1, 0), None), ((-1, 1), odd), ((0, -1), None), ((0, 1), None), ((1, -1), even),
             ((1, 0), None), ((1, 1), odd)]  # fmt: skip
    return _joined((rows, columns), axes, steps, colours)


def _axes(shape: Sequence[int], device: Any) -> list[torch.Tensor]:
    """The indices along each axis, as tensors with size 1 along the other axes; int32 on a GPU."""
    dtype = torch.int64 if torch.device(device).type == "cpu" else torch.int32
    ranges = [torch.arange(int(size), dtype=dtype, device=device) for size in shape]
    return [axis.view(*(-1 if at == place else 1 for at in range(len(shape)))) for place, axis in enumerate(ranges)]


def _joined(
    shape: Sequence[int],
    axes: Sequence[torch.Tensor],
    steps: Sequence[tuple[Sequence[int], torch.Tensor | None]],
    colours: Any,
) -> Graph:
    """The graph whose points are joined by the ``steps``, in ascending order, that stay on the lattice; with a mask,
    from the points where it is true."""
    sizes = tuple(int(size) for size in shape)
    strides = torch.empty(sizes, device="meta").stride()
    masks = []
    for step, where in steps:
        inside = axes[0] >= 0 if where is None else where
        for axis, move, size in zip(axes, step, sizes, strict=True):
            if move:
                inside = inside & ((axis + move >= 0) & (axis + move < size))
        masks.append(inside.expand(sizes).flatten())
    mask = torch.stack(masks, 1)
    jumps = [sum(move * stride for move, stride in zip(step, strides, strict=True)) for step, _ in steps]
    first = axes[0]
    points = torch.arange(len(mask), dtype=first.dtype, device=first.device)
    ends = points[:, None] + torch.tensor(jumps, dtype=first.dtype, device=first.device)
    return unit_graph(mask.sum(1), ends[mask], colours.expand(sizes).flatten()).at(sizes)
