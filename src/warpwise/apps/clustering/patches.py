"""The order of the points of a colour: in patches of nearby points, which have most of their neighbours in common.

A kernel that updates a colour reads the rows of q of the neighbours of its points. In the order of a lattice a tile of
points is a long row, and five of eight neighbours of a point on a square grid are neighbours of no other point of the
tile. In a patch that is as high as wide it is 3.4, so that more rows are in the cache of an SM.
"""

from __future__ import annotations

import torch

FEWEST = (1 << 16) + 1  # points: the rows of fewer points are in the caches in any order
COLUMNS = 32  # of a strip of a 2-D lattice
BEAM = 8  # width of a beam of a 3-D lattice along its second and third axis

# The bits of a number of 31 or 20 bits move apart, so that one or two zeros follow each: (shift, mask) in turn.
_SPREAD = {
    2: ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333),
        (1, 0x5555555555555555)),
    3: ((32, 0x001F00000000FFFF), (16, 0x001F0000FF0000FF), (8, 0x100F00F00F00F00F), (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249)),
}  # fmt: skip


def in_patches(
    order: torch.Tensor, colours: torch.Tensor, places: torch.Tensor | tuple[int, ...] | None
) -> torch.Tensor | None:
    """(N,) int64: the places in ``order``, the points (N,) sorted by colour, one patch after another of each colour.

    ``colours`` (N,) are those of the points. ``places`` are their positions (N, 2 or 3), or the shape of a lattice
    whose points are in row-major order. None if the order stays as it is: without ``places``, and for few points.
    """
    if places is None or len(order) < FEWEST:
        return None
    if isinstance(places, torch.Tensor):
        along = torch.argsort(morton_keys(places.to(order.device)), stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        along = place[along]
        return along[torch.argsort(colours[order][along], stable=True)]
    keys = _strips(places, order.device)
    most = int(keys.max()) + 1
    return torch.argsort(_smallest(colours.to(keys.dtype) * most + keys)[order], stable=True)


def _strips(shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """(N,) int32: the strip or beam of each point of a lattice."""
    *others, columns = (torch.arange(size, dtype=torch.int32, device=device) for size in shape)
    if len(shape) == 2:
        return (columns // COLUMNS).expand(shape).flatten()
    beams = -(-shape[2] // BEAM)
    return (others[1][:, None] // BEAM * beams + columns // BEAM).expand(shape).flatten()


def _smallest(keys: torch.Tensor) -> torch.Tensor:
    """``keys``, from 0 on, in the smallest dtype: a GPU sorts them a byte at a time."""
    most = int(keys.max())
    return keys.to(next(dtype for dtype in (torch.uint8, torch.int16, torch.int32) if most <= torch.iinfo(dtype).max))


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
