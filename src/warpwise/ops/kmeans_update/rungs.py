"""The ladder of kmeans_update, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.operation import cdiv, lazy_launch, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.kmeans_update.spec import DTYPES, SPEC

HERE = Path(__file__).parent
THREADS, WARP = 256, 32  # the most threads of a block of k02
SHARED_OF_TWO, SHARED_OF_ONE = 112 * 1024, 224 * 1024  # bytes per block, with two blocks and with one per SM
POINTS_A_TEAM = 64  # minimum per team of a block, to amortise clearing and adding the team's copy
SLAB, MOST_CLUSTERS = 32, 128  # k03: features of a warp, and clusters whose sums fit in its registers
MOST_BLOCKS, MOST_RESTARTS = 2**31 - 1, 65535  # of a grid: x and y

GLOBAL_ATOMICS = cuda.load(HERE / "k01_global_atomics.cu")
TEAM_COPIES = cuda.load(HERE / "k02_team_copies.cu")
ONE_HOT = cuda.load(HERE / "k03_one_hot.cu")

Outputs = tuple[torch.Tensor, torch.Tensor]


class Team(NamedTuple):
    """``lanes`` lanes for a point; ``threads`` and ``bytes`` of shared memory of a block."""

    lanes: int
    threads: int
    bytes: int


def team_of(clusters: int, width: int) -> Team | None:
    """Four features per lane, and the largest block of which two fit on an SM, or one warp; None if that does not fit.

    If the copies for a warp of small teams do not fit in shared memory, the teams are larger and some lanes are idle.
    """
    lanes = min(WARP, 1 << max(0, cdiv(width, 4) - 1).bit_length())
    each = 4 * clusters * (cdiv(width, 4) * 4 + 1)
    while lanes <= WARP:
        threads = THREADS
        while threads > WARP and threads // lanes * each > SHARED_OF_TWO:
            threads //= 2
        if (size := threads // lanes * each) <= SHARED_OF_ONE:
            return Team(lanes, threads, size)
        lanes *= 2
    return None


def global_atomics(outputs: Outputs, X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> None:
    sums, counts = outputs
    sums.zero_()
    counts.zero_()
    if X.numel() and labels.numel():
        n, width = X.shape
        kernel = GLOBAL_ATOMICS["kmeans_update_global_atomics"]
        kernel[(cdiv(n * width, THREADS), restarts_of(labels)), THREADS](X, labels, sums, counts, n, width, n_clusters)


def team_copies(outputs: Outputs, X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> None:
    (sums, counts), (n, width) = outputs, X.shape
    if not X.numel() or not labels.numel():
        sums.zero_()
        counts.zero_()
        return
    team = team_of(n_clusters, width)
    assert team is not None  # limits
    resident = sm_count(X) * max(1, min(2048 // team.threads, SHARED_OF_ONE // team.bytes))
    restarts = restarts_of(labels)
    blocks = min(cdiv(resident, restarts), cdiv(n, POINTS_A_TEAM * (team.threads // team.lanes)))
    partials, partial_counts = partials_of(outputs, blocks)
    kernel = TEAM_COPIES["kmeans_update_team_copies"][(blocks, restarts), team.threads, team.bytes]
    kernel(X, labels, cuda.out(partials), cuda.out(partial_counts), n, width, n_clusters, team.lanes)
    add_partials(outputs, partials, partial_counts)


def one_hot(outputs: Outputs, X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> None:
    (sums, counts), (n, width) = outputs, X.shape
    if not X.numel() or not labels.numel():
        sums.zero_()
        counts.zero_()
        return
    tiles, all_slabs, restarts = cdiv(n_clusters, 16), cdiv(width, SLAB), restarts_of(labels)
    slabs = min(4, all_slabs)
    groups, chunks = 4 // slabs, cdiv(all_slabs, slabs)
    resident = sm_count(X) * (2 if tiles > 3 else 3)  # blocks_an_sm
    points = groups * 8 * (2 if tiles > 4 else 4)  # of a block at a time: steps_of
    blocks = min(cdiv(resident, restarts * chunks), cdiv(n, 4 * points))
    partials, partial_counts = partials_of(outputs, blocks * groups)
    vector = next(size for size in (4, 2, 1) if width % size == 0 and X.data_ptr() % (4 * size) == 0)
    kernel = ONE_HOT[f"kmeans_update_one_hot<{tiles}, {vector}>"][(blocks, restarts, chunks), 32 * slabs * groups]
    kernel(X, labels, cuda.out(partials), cuda.out(partial_counts), n, width, n_clusters, slabs)
    add_partials(outputs, partials, partial_counts)


def partials_of(outputs: Outputs, rows: int) -> Outputs:
    """``rows`` of sums and counts; a single one is the outputs."""
    if rows == 1:
        return outputs
    sums, counts = outputs
    return sums.new_empty((rows, *sums.shape)), counts.new_empty((rows, *counts.shape))


def add_partials(outputs: Outputs, partials: torch.Tensor, partial_counts: torch.Tensor) -> None:
    (sums, counts), blocks = outputs, len(partials)
    if partials is sums:
        return
    add = TEAM_COPIES["kmeans_update_add_partials"][cdiv(sums.numel() + counts.numel(), 32), 256]
    add(partials, partial_counts, cuda.out(sums), cuda.out(counts), blocks, sums.numel(), counts.numel())


def restarts_of(labels: torch.Tensor) -> int:
    return 1 if labels.dim() == 1 else len(labels)


def limits(X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> str | None:
    if labels.dtype != torch.int32:
        return f"takes labels of int32, not {labels.dtype}"
    if cdiv(X.numel(), THREADS) > MOST_BLOCKS:
        return f"takes up to {MOST_BLOCKS * THREADS} elements of X, not {X.numel()}"
    if restarts_of(labels) > MOST_RESTARTS:
        return f"takes up to {MOST_RESTARTS} restarts, not {restarts_of(labels)}"
    return None


def copies_fit(X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> str | None:
    if team_of(n_clusters, X.shape[1]) is None:
        return f"takes sums that fit in {SHARED_OF_ONE} bytes of shared memory, not {n_clusters} x {X.shape[1]}"
    return limits(X, labels, n_clusters)


def few_clusters(X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> str | None:
    if n_clusters > MOST_CLUSTERS:
        return f"takes up to {MOST_CLUSTERS} clusters, not {n_clusters}"
    return limits(X, labels, n_clusters)


triton = lazy_launch(f"{__package__}.k04_triton")


RUNGS = (
    make_rung(HERE, "k01_global_atomics", "one atomic in global memory a feature", global_atomics, dtypes=DTYPES,
              limits=limits, deterministic=False),
    make_rung(HERE, "k02_team_copies", "a copy of the sums per team of lanes, without atomics", team_copies,
              dtypes=DTYPES, limits=copies_fit),
    make_rung(HERE, "k03_one_hot", "a product with memberships made in registers, by tensor cores", one_hot,
              dtypes=DTYPES, limits=few_clusters),
    make_rung(HERE, "k04_triton", "memberships times points with tl.dot", triton, dtypes=DTYPES, limits=limits),
)  # fmt: skip


FEW_LABELS, MORE_LABELS, FEW_SUMS, MANY_SUMS, NARROW = 100_000, 300_000, 256, 2048, 16


def default(X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> str | None:
    """k03 for few labels, and for many sums, of which few copies fit in k02's shared memory; else k02. PyTorch for few
    points of many large sums, where copies of the sums take longer than a product."""
    width = X.shape[1]
    sums = n_clusters * width
    if len(X) < 32768 and sums > 8192:
        return None
    few = MORE_LABELS if sums <= FEW_SUMS else FEW_LABELS
    if labels.numel() <= few or (sums >= MANY_SUMS and width > NARROW):
        return first_taking(SPEC, RUNGS, (X, labels, n_clusters), "k03_one_hot", "k02_team_copies")
    return first_taking(SPEC, RUNGS, (X, labels, n_clusters), "k02_team_copies")
