"""The same with tl.dot: a program holds a block of points and loops over blocks of centroids."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def kmeans_assign(
    x_ptr,
    centroids_ptr,
    labels_ptr,
    distances_ptr,
    n,
    width,
    clusters,
    DISTANCES: tl.constexpr,
    POINTS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """x: (n, width), centroids: (restarts, clusters, width); labels: (restarts, n) int32, distances: (restarts, n).
    WIDTH: a power of two, at least width and 16. Grid: (cdiv(n, POINTS), restarts) programs."""
    restart = tl.program_id(1).to(tl.int64)
    centroids_ptr += restart * clusters * width
    labels_ptr += restart * n
    distances_ptr += restart * n
    points = tl.program_id(0).to(tl.int64) * POINTS + tl.arange(0, POINTS)
    columns = tl.arange(0, WIDTH)
    x = tl.load(
        x_ptr + points[:, None] * width + columns[None, :],
        mask=(points < n)[:, None] & (columns < width)[None, :],
        other=0.0,
    )
    best = tl.full((POINTS,), float("-inf"), tl.float32)
    labels = tl.zeros((POINTS,), tl.int32)
    for start in range(0, clusters, CLUSTERS):
        rows = start + tl.arange(0, CLUSTERS)
        centroids = tl.load(
            centroids_ptr + rows[None, :] * width + columns[:, None],
            mask=(rows < clusters)[None, :] & (columns < width)[:, None],
            other=0.0,
        )
        half_norms = tl.sum(centroids * centroids, axis=0) / 2
        scores = tl.dot(x, centroids, input_precision="ieee") - half_norms[None, :]
        scores = tl.where((rows < clusters)[None, :], scores, float("-inf"))
        highest = tl.max(scores, axis=1)
        better = highest > best
        labels = tl.where(better, start + tl.argmax(scores, axis=1).to(tl.int32), labels)
        best = tl.where(better, highest, best)
    tl.store(labels_ptr + points, labels, mask=points < n)
    if DISTANCES:
        squared = tl.sum(x * x, axis=1) - 2 * best
        tl.store(distances_ptr + points, tl.maximum(squared, 0.0), mask=points < n)
