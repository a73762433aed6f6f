"""The ladder of smooth_features, slowest idea first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.smooth_features.spec import DTYPES, SPEC

HERE = Path(__file__).parent
THREADS = 256  # kThreads of k02
BLOCKS_AN_SM = 8
MOST_BLOCKS = 2**31 - 1
TRITON_TILE = 512  # points times features of k03: four elements a thread

THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
FOUR_FEATURES = cuda.load(HERE / "k02_four_features.cu")
COLUMNS_AHEAD = cuda.load(HERE / "k04_columns_ahead.cu")

Tensor = torch.Tensor
Launch = Callable[..., None]


def each_hop(launch: Launch) -> Launch:
    """``launch(out, values, ...)`` once per hop; it writes a scratch tensor and the output alternately."""

    def launch_hops(
        output: Tensor,
        values: Tensor,
        rowptr: Tensor,
        columns: Tensor,
        weights: Tensor | None,
        scale: Tensor,
        hops: int,
    ) -> None:
        scratch = torch.empty_like(output) if hops > 1 else output
        for hop in range(hops):
            out = output if (hops - hop) % 2 else scratch
            launch(out, values, rowptr, columns, weights, scale)
            values = out

    return launch_hops


@each_hop
def thread_per_element(out: Tensor, values: Tensor, *rest: Tensor | None) -> None:
    kernel = THREAD_PER_ELEMENT["smooth_thread_per_element"]
    kernel[cdiv(values.numel(), THREADS), THREADS](values, *rest, cuda.out(out), *values.shape)


@each_hop
def four_features(out: Tensor, values: Tensor, *rest: Tensor | None) -> None:
    n, width = values.shape
    lanes = min(32, 1 << (cdiv(width, 4) - 1).bit_length())
    grid = min(BLOCKS_AN_SM * sm_count(values), cdiv(n, THREADS // lanes))
    FOUR_FEATURES["smooth_four_features"][grid, THREADS](values, *rest, cuda.out(out), n, width, lanes)


@each_hop
def columns_ahead(out: Tensor, values: Tensor, *rest: Tensor | None) -> None:
    n, width = values.shape
    lanes = min(32, 1 << (cdiv(width, 4) - 1).bit_length())
    places = width * values.element_size() | values.data_ptr() | out.data_ptr()
    vector = next(size for size in (4, 2, 1) if places % (4 * size) == 0)
    weighted = str(rest[2] is not None).lower()
    grid = min(BLOCKS_AN_SM * sm_count(values), cdiv(n, THREADS // lanes))
    kernel = COLUMNS_AHEAD[f"smooth_columns_ahead<{lanes}, {vector}, {weighted}>"]
    kernel[grid, THREADS](values, *rest, cuda.out(out), n, width)


@each_hop
def triton(out: Tensor, values: Tensor, rowptr: Tensor, columns: Tensor, weights: Tensor | None, scale: Tensor) -> None:
    from warpwise.ops.smooth_features.k03_triton import smooth

    n, width = values.shape
    features = min(TRITON_TILE, 1 << (width - 1).bit_length())
    points = TRITON_TILE // features
    kernel = smooth[(cdiv(n, points), cdiv(width, features))]
    kernel(values, rowptr, columns, weights, scale, out, n, width, POINTS=points, FEATURES=features, num_warps=4)


def limits(values: Tensor, rowptr: Tensor, columns: Tensor, *rest: object) -> str | None:
    if rowptr.dtype != torch.int32 or columns.dtype != torch.int32:
        return f"takes a graph of int32, not {columns.dtype}"
    if cdiv(values.numel(), THREADS) > MOST_BLOCKS:
        return f"takes up to {MOST_BLOCKS * THREADS} elements, not {values.numel()}"
    return None


RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread per feature of a point", thread_per_element, dtypes=DTYPES,
              limits=limits),
    make_rung(HERE, "k02_four_features", "four features per lane, 16-byte loads", four_features, dtypes=DTYPES,
              limits=limits),
    make_rung(HERE, "k03_triton", "a tile of points and features per program in Triton", triton, dtypes=DTYPES,
              limits=limits),
    make_rung(HERE, "k04_columns_ahead", "columns of the next point while rows arrive", columns_ahead, dtypes=DTYPES,
              limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k04 where it takes the arguments."""
    return first_taking(SPEC, RUNGS, args, "k04_columns_ahead")
