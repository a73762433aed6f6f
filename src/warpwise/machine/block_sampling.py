"""Stratified sampling of the blocks of a grid."""

from __future__ import annotations

import itertools

import numpy as np

Index3 = tuple[int, int, int]


def sample_blocks(grid: Index3, target: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return linear indices (uint64, ascending) of about ``target`` blocks, and their weights (float64; None: all 1).

    In each dimension the first and the last block can behave differently from the others, so corners, edges and
    interior are separate strata, 27 at most. The number of samples of a stratum is proportional to its size, and at
    least 1; they are spread evenly over it, with a fixed seed. The weights of its samples add up to its size.
    """
    total = grid[0] * grid[1] * grid[2]
    if target < 1:
        raise ValueError(f"blocks={target}: expected at least 1, or None for all")
    if target >= total:
        return np.arange(total, dtype=np.uint64), None
    generator = np.random.default_rng(0)
    indices, weights = [], []
    for stratum in itertools.product(*(_strata(extent) for extent in reversed(grid))):
        depth, height, width = (bounds[1] - bounds[0] for bounds in stratum)
        size = depth * height * width
        count = min(size, max(1, round(target * size / total)))
        edges = np.arange(count + 1, dtype=np.uint64) * np.uint64(size) // np.uint64(count)
        offsets = edges[:-1] + (generator.random(count) * (edges[1:] - edges[:-1])).astype(np.uint64)
        z, rest = np.divmod(offsets, np.uint64(height * width))
        y, x = np.divmod(rest, np.uint64(width))
        z, y, x = z + np.uint64(stratum[0][0]), y + np.uint64(stratum[1][0]), x + np.uint64(stratum[2][0])
        indices.append((z * np.uint64(grid[1]) + y) * np.uint64(grid[0]) + x)
        weights.append((edges[1:] - edges[:-1]).astype(np.float64))
    block_indices, block_weights = np.concatenate(indices), np.concatenate(weights)
    order = np.argsort(block_indices)
    return block_indices[order], block_weights[order]


def sample_clusters(grid: Index3, cluster: Index3, target: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Sample whole clusters like ``sample_blocks``; the blocks of a cluster are adjacent, in order of rank."""
    size = cluster[0] * cluster[1] * cluster[2]
    if size == 1:
        return sample_blocks(grid, target)
    clusters = (grid[0] // cluster[0], grid[1] // cluster[1], grid[2] // cluster[2])
    chosen, weights = sample_blocks(clusters, max(1, round(target / size)))
    z, rest = np.divmod(chosen.astype(np.int64), clusters[0] * clusters[1])
    y, x = np.divmod(rest, clusters[0])
    rank = np.arange(size)
    of = (rank % cluster[0], rank // cluster[0] % cluster[1], rank // (cluster[0] * cluster[1]))
    first = (x * cluster[0], y * cluster[1], z * cluster[2])
    place = [start[:, None] + offset[None, :] for start, offset in zip(first, of, strict=True)]
    blocks = ((place[2] * grid[1] + place[1]) * grid[0] + place[0]).reshape(-1).astype(np.uint64)
    return blocks, None if weights is None else np.repeat(weights, size)


def _strata(extent: int) -> list[tuple[int, int]]:
    """Return the first, interior and last block indices of a dimension as half-open ranges, without empty ones."""
    if extent == 1:
        return [(0, 1)]
    return [(0, 1), *([(1, extent - 1)] if extent > 2 else []), (extent - 1, extent)]
