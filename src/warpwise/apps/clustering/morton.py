"""The order of the points of a colour along a Morton curve, if the points have coordinates.

A kernel that updates a colour reads the rows of q of the neighbours of its points. Coordinates come in any order; along
the curve points that are near in memory are near in space and have neighbours in common, so that more rows are in the
caches. Points of a lattice keep their order: patches gain nothing there (NOTES.md of potts_em_step).
"""

from __future__ import annotations

import torch

FEWEST = (1 << 16) + 1  # points: the rows of fewer points are in the caches in any order

# The bits of a number of 31 or 20 bits move apart, so that one or two zeros follow each: (shift, mask) in turn.
_SPREAD = {
    2: ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333),
        (1, 0x5555555555555555)),
    3: ((32, 0x001F00000000FFFF), (16, 0x001F0000FF0000FF), (8, 0x100F00F00F00F00F), (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249)),
}  # fmt: skip


def along_curve(order: torch.Tensor, colours: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """(N,) int64: indices into ``order`` that sort the points of each colour along a Morton curve.

    ``order`` (N,) are the points sorted by colour, ``colours`` (N,) and ``places`` (N, 2 or 3) the colours and the
    positions of the points.
    """
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    along = torch.argsort(morton_keys(places.to(order.device)), stable=True)
    return place[along[torch.argsort(colours[along], stable=True)]]


def morton_keys(places: torch.Tensor) -> torch.Tensor:
    """(N,) int64: the bits of the cells of ``places`` (N, 2 or 3) along the axes, interleaved."""
    axes = places.shape[1]
    bits, low = 62 // axes, places.amin(0)
    extent = float((places - low).max()) or 1.0
    keys = torch.zeros(len(places), dtype=torch.int64, device=places.device)
    for axis in range(axes):
        cells = ((places[:, axis] - low[axis]).double() / extent * (2**bits - 1)).long()
        for shift, mask in _SPREAD[axes]:
            cells = (cells | cells << shift) & mask
        keys |= cells << axis
    return keys
