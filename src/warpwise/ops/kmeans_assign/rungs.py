"""The ladder of kmeans_assign, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.kmeans_assign.spec import DTYPES, SPEC

HERE = Path(__file__).parent
THREADS, POINTS_A_THREAD = 128, 4  # kThreads and kPoints of k02
SHARED_OF_TWO, SHARED_OF_ONE = 112 * 1024, 224 * 1024  # bytes per block, with two blocks and with one per SM
MOST_TILES = 8  # k04: tiles of eight centroids whose scores a warp holds in registers
MOST_BLOCKS, MOST_RESTARTS = 2**31 - 1, 65535  # of a grid: x and y
TRITON_WIDTH, TRITON_ELEMENTS = 256, 8192  # columns at most; elements of a block of points

THREAD_PER_POINT = cuda.load(HERE / "k01_thread_per_point.cu")
REGISTER_TILES = cuda.load(HERE / "k02_register_tiles.cu")
TENSOR_CORES = cuda.load(HERE / "k04_tensor_cores.cu")

Outputs = tuple[torch.Tensor, torch.Tensor | None]


class Tile(NamedTuple):
    """``lanes`` lanes for four points each; ``chunk`` centroids at a time; ``bytes`` of shared memory."""

    lanes: int
    chunk: int
    bytes: int

    @property
    def points(self) -> int:
        return THREADS // self.lanes * POINTS_A_THREAD


def tile_of(clusters: int, width: int) -> Tile | None:
    """The tile with the most points for which two blocks fit on an SM, else one block; None if no tile fits.

    ``lanes`` is the number of groups of four centroids, up to 8, or more for a smaller tile.
    """
    stride = (cdiv(width, 4) | 1) * 4
    fewest = min(8, 1 << (cdiv(clusters, 4) - 1).bit_length())
    for room in (SHARED_OF_TWO, SHARED_OF_ONE):
        lanes = fewest
        while lanes <= 32:
            each = 4 * lanes
            points = THREADS // lanes * POINTS_A_THREAD
            fitting = (room - 8 * points * stride) // (4 * (stride + 1))
            chunk = min(cdiv(clusters, each), fitting // each) * each
            if chunk >= min(64, cdiv(clusters, each) * each):
                return Tile(lanes, chunk, 4 * (2 * points * stride + chunk * (stride + 1)))
            lanes *= 2
    return None


def thread_per_point(outputs: Outputs, X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> None:
    (n, width), clusters = X.shape, centroids.shape[-2]
    kernel = THREAD_PER_POINT["kmeans_assign_thread_per_point"]
    kernel[(cdiv(n, THREADS), restarts_of(centroids)), THREADS](X, centroids, *_outs(outputs), n, width, clusters)


def register_tiles(outputs: Outputs, X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> None:
    (n, width), clusters, restarts = X.shape, centroids.shape[-2], restarts_of(centroids)
    tile = tile_of(clusters, width)
    assert tile is not None  # limits
    blocks = sm_count(X) * max(1, min(2048 // THREADS, SHARED_OF_ONE // tile.bytes))
    kernel = REGISTER_TILES["kmeans_assign_register_tiles"]
    grid = min(cdiv(blocks, restarts), cdiv(n, tile.points))
    kernel[(grid, restarts), THREADS, tile.bytes](
        X, centroids, *_outs(outputs), n, width, clusters, tile.lanes, tile.chunk
    )


def triton(outputs: Outputs, X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> None:
    from warpwise.ops.kmeans_assign.k03_triton import kmeans_assign

    (n, width), clusters = X.shape, centroids.shape[-2]
    padded = max(16, 1 << (width - 1).bit_length())
    points = min(256, TRITON_ELEMENTS // padded)
    together = min(64, max(16, 1 << (clusters - 1).bit_length()))
    labels, distances = outputs
    kernel = kmeans_assign[(cdiv(n, points), restarts_of(centroids))]
    kernel(X, centroids, labels, labels if distances is None else distances, n, width, clusters,
           DISTANCES=return_distances, POINTS=points, CLUSTERS=together, WIDTH=padded, num_warps=4)  # fmt: skip


class Fragments(NamedTuple):
    """``tiles`` tiles of eight centroids at a time, ``bytes`` of shared memory of a block, and blocks per SM."""

    tiles: int
    bytes: int
    blocks: int


def fragments_of(clusters: int, width: int) -> Fragments | None:
    """At most eight tiles at a time, the fewest for that number of passes; None if centroids do not fit."""
    every = cdiv(clusters, 8)
    tiles = cdiv(every, cdiv(every, MOST_TILES))
    held = cdiv(every, tiles) * tiles * 8
    size = 4 * held * (row_stride(width) + 1)
    if size > SHARED_OF_ONE:
        return None
    resident = 3 if tiles > 4 else 4 if tiles > 2 else 5  # blocks_an_sm
    return Fragments(tiles, size, min(resident, SHARED_OF_ONE // size))


def row_stride(width: int) -> int:
    return (width + 15) // 32 * 32 + 16


def tensor_cores(outputs: Outputs, X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> None:
    (n, width), clusters, restarts = X.shape, centroids.shape[-2], restarts_of(centroids)
    found = fragments_of(clusters, width)
    assert found is not None  # limits
    if not n:
        return
    word = next(size for size in (16, 8, 4) if 4 * width % size == 0 and X.data_ptr() % size == 0)
    grid = min(cdiv(sm_count(X) * found.blocks, restarts), cdiv(n, THREADS))
    kernel = TENSOR_CORES[f"kmeans_assign_tensor_cores<{found.tiles}, {word}>"]
    kernel[(grid, restarts), THREADS, found.bytes](X, centroids, *_outs(outputs), n, width, clusters)


def _outs(outputs: Outputs) -> list[object]:
    return [None if output is None else cuda.out(output) for output in outputs]


def restarts_of(centroids: torch.Tensor) -> int:
    return 1 if centroids.dim() == 2 else len(centroids)


def too_large(X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> str | None:
    most = MOST_BLOCKS * 32
    if len(X) > most:
        return f"takes up to {most} points, not {len(X)}"
    if restarts_of(centroids) > MOST_RESTARTS:
        return f"takes up to {MOST_RESTARTS} restarts, not {restarts_of(centroids)}"
    return None


def no_tile(X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> str | None:
    if tile_of(centroids.shape[-2], X.shape[1]) is None:
        room = f"points and centroids that fit in {SHARED_OF_ONE} bytes of shared memory"
        return f"takes {room}, not {X.shape[1]} features"
    return too_large(X, centroids, return_distances)


def wide(X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> str | None:
    if X.shape[1] > TRITON_WIDTH:
        return f"takes up to {TRITON_WIDTH} features (a block of points stays in registers), not {X.shape[1]}"
    return too_large(X, centroids, return_distances)


def no_room(X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> str | None:
    if fragments_of(centroids.shape[-2], X.shape[1]) is None:
        shape = tuple(centroids.shape[-2:])
        return f"takes centroids that fit in {SHARED_OF_ONE} bytes of shared memory, not {shape}"
    return too_large(X, centroids, return_distances)


RUNGS = (
    make_rung(HERE, "k01_thread_per_point", "one thread per point", thread_per_point, dtypes=DTYPES,
              limits=too_large),
    make_rung(HERE, "k02_register_tiles", "4 x 4 products in registers, the best kept", register_tiles, dtypes=DTYPES,
              limits=no_tile),
    make_rung(HERE, "k03_triton", "the same with tl.dot", triton, dtypes=DTYPES, limits=wide),
    make_rung(HERE, "k04_tensor_cores", "products of TF32 pairs, points from global memory to fragments", tensor_cores,
              dtypes=DTYPES, limits=no_room),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k04, or k02 for centroids that do not fit in shared memory."""
    return first_taking(SPEC, RUNGS, args, "k04_tensor_cores", "k02_register_tiles")
