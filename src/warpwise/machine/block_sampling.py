"""Which blocks of a grid to run when not all are wanted, and how many each stands for."""

from __future__ import annotations

import itertools

import numpy as np

Index3 = tuple[int, int, int]


def choose(grid: Index3, wanted: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Linear numbers (uint64, ascending) of the blocks to run and what each counts for (float64; None: one each).

    Along a dimension the first and the last block may differ from those between, so they are strata: 27 at most, of
    corners, edges and interior. Each stratum gives about ``wanted`` times its share of the grid, at least one block,
    spread evenly over it from a fixed seed, and its blocks' weights add up to its size.
    """
    total = grid[0] * grid[1] * grid[2]
    if wanted < 1:
        raise ValueError(f"blocks={wanted}: expected at least 1, or None for all")
    if wanted >= total:
        return np.arange(total, dtype=np.uint64), None
    generator = np.random.default_rng(0)
    numbers, weights = [], []
    for parts in itertools.product(*(_parts(extent) for extent in reversed(grid))):
        depth, height, width = (part[1] - part[0] for part in parts)
        size = depth * height * width
        count = min(size, max(1, round(wanted * size / total)))
        edges = np.arange(count + 1, dtype=np.uint64) * np.uint64(size) // np.uint64(count)
        inside = edges[:-1] + (generator.random(count) * (edges[1:] - edges[:-1])).astype(np.uint64)
        z, rest = np.divmod(inside, np.uint64(height * width))
        y, x = np.divmod(rest, np.uint64(width))
        z, y, x = z + np.uint64(parts[0][0]), y + np.uint64(parts[1][0]), x + np.uint64(parts[2][0])
        numbers.append((z * np.uint64(grid[1]) + y) * np.uint64(grid[0]) + x)
        weights.append((edges[1:] - edges[:-1]).astype(np.float64))
    joined, stands_for = np.concatenate(numbers), np.concatenate(weights)
    order = np.argsort(joined)
    return joined[order], stands_for[order]


def _parts(extent: int) -> list[tuple[int, int]]:
    """First, interior and last of a dimension, as ranges; those that are there."""
    if extent == 1:
        return [(0, 1)]
    return [(0, 1), *([(1, extent - 1)] if extent > 2 else []), (extent - 1, extent)]
