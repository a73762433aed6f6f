"""The sums as a product with tl.dot: memberships, transposed (clusters, points), times points (points, features).

No copy of the sums per team is needed: a program holds a tile of the sums in registers, and adds the products of one
block of points after another. A second launch adds the programs' sums in a fixed order. The memberships are made from
the labels in registers; most products are with 0, so the time grows with the number of clusters.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv, sm_count

POINTS, MOST_TILE, PROGRAMS_PER_SM = 64, 64, 4  # points of a block; most clusters and features of a tile


@wt.jit
def partial_sums(
    x_ptr,
    labels_ptr,
    partials_ptr,
    counts_ptr,
    n,
    width,
    clusters,
    share,
    parts,
    POINTS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """x: (n, width), labels: (restarts, n); partials: (restarts, parts, clusters, width), counts: (restarts, parts,
    clusters). Labels outside [0, clusters) are left out.

    Grid: (parts, cdiv(clusters, CLUSTERS) cdiv(width, WIDTH), restarts) programs, of `share` points each.
    """
    part, restart, tiles = tl.program_id(0), tl.program_id(2).to(tl.int64), tl.cdiv(width, WIDTH)
    own = tl.program_id(1) // tiles * CLUSTERS + tl.arange(0, CLUSTERS)
    column = tl.program_id(1) % tiles * WIDTH + tl.arange(0, WIDTH)
    sums = tl.zeros((CLUSTERS, WIDTH), tl.float32)
    counts = tl.zeros((CLUSTERS,), tl.int32)
    for first in range(part.to(tl.int64) * share, tl.minimum((part + 1).to(tl.int64) * share, n), POINTS):
        points = first + tl.arange(0, POINTS)
        labels = tl.load(labels_ptr + restart * n + points, mask=points < n, other=-1)
        inside = (points < n)[:, None] & (column < width)[None, :]
        x = tl.load(x_ptr + points[:, None] * width + column[None, :], mask=inside, other=0.0)
        member = own[:, None] == labels[None, :]
        sums = tl.dot(tl.where(member, 1.0, 0.0), x, sums, input_precision="ieee")
        counts += tl.sum(member.to(tl.int32), axis=1)
    row = (restart * parts + part) * clusters + own
    inside = (own < clusters)[:, None] & (column < width)[None, :]
    tl.store(partials_ptr + row[:, None] * width + column[None, :], sums, mask=inside)
    if tl.program_id(1) % tiles == 0:
        tl.store(counts_ptr + row, counts, mask=own < clusters)


@wt.jit
def add_partials(partials_ptr, sums_ptr, parts, size, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """sums: (restarts, size) = the sums over parts of partials: (restarts, parts, size). Grid: (cdiv(size, BLOCK),
    restarts) programs."""
    at, restart = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1).to(tl.int64)
    totals = tl.zeros((ROWS, BLOCK), sums_ptr.dtype.element_ty)
    for first in range(0, parts, ROWS):
        row = first + tl.arange(0, ROWS)
        offsets = (restart * parts + row)[:, None] * size + at[None, :]
        totals += tl.load(partials_ptr + offsets, mask=(row < parts)[:, None] & (at < size)[None, :], other=0)
    tl.store(sums_ptr + restart * size + at, tl.sum(totals, axis=0), mask=at < size)


def launch(outputs: tuple[torch.Tensor, torch.Tensor], X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> None:
    (sums, counts), (n, width) = outputs, X.shape
    if not X.numel() or not labels.numel():
        sums.zero_()
        counts.zero_()
        return
    restarts = labels.numel() // n
    held, across = (max(16, min(MOST_TILE, 1 << (size - 1).bit_length())) for size in (n_clusters, width))
    tiles = cdiv(n_clusters, held) * cdiv(width, across)
    parts = min(cdiv(PROGRAMS_PER_SM * sm_count(X), tiles * restarts), cdiv(n, 4 * POINTS))
    share = cdiv(cdiv(n, parts), POINTS) * POINTS
    partials = X.new_empty((restarts, parts, n_clusters, width))
    partial_counts = counts.new_empty((restarts, parts, n_clusters))
    partial_sums[(parts, tiles, restarts)](
        *(X, labels, partials, partial_counts, n, width, n_clusters, share, parts),
        POINTS=POINTS,
        CLUSTERS=held,
        WIDTH=across,
        num_warps=4,
    )
    for given, total, size in ((partials, sums, n_clusters * width), (partial_counts, counts, n_clusters)):
        add_partials[(cdiv(size, 32), restarts)](given, total, parts, size, ROWS=32, BLOCK=32)
