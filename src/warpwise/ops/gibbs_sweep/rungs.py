"""The ladder of gibbs_sweep, slowest idea first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.gibbs_sweep.spec import DTYPES, SPEC

HERE = Path(__file__).parent
THREADS, BLOCKS_AN_SM = 256, 8  # kThreads of k02
MOST_DOMAINS, MOST_POINTS = 128, 2**31 - 2**20
TRITON_TILE = 512  # points times domains of k03: four elements a thread

THREAD_PER_POINT = cuda.load(HERE / "k01_thread_per_point.cu")
LANES_PER_POINT = cuda.load(HERE / "k02_lanes_per_point.cu")


def colours(bounds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first point and the end of each colour that has points."""
    return ((begin, end) for begin, end in pairwise(bounds) if begin < end)


def thread_per_point(outputs: object, *args: Any) -> None:
    *tensors, bounds = args
    domains = tensors[0].shape[1]
    for begin, end in colours(bounds):
        launch = THREAD_PER_POINT["gibbs_thread_per_point"][cdiv(end - begin, THREADS), THREADS]
        launch(*tensors, begin, end, domains)


def lanes_per_point(outputs: object, *args: Any) -> None:
    *tensors, bounds = args
    domains = tensors[0].shape[1]
    lanes = 1 << (cdiv(domains, 4) - 1).bit_length()
    for begin, end in colours(bounds):
        grid = min(BLOCKS_AN_SM * sm_count(tensors[0]), cdiv(end - begin, THREADS // lanes))
        LANES_PER_POINT[f"gibbs_lanes_per_point<{lanes}>"][grid, THREADS](*tensors, begin, end, domains)


def triton(outputs: object, *args: Any) -> None:
    from warpwise.ops.gibbs_sweep.k03_triton import sweep

    *tensors, bounds = args
    domains = tensors[0].shape[1]
    padded = max(2, 1 << (domains - 1).bit_length())
    points = max(1, TRITON_TILE // padded)
    for begin, end in colours(bounds):
        sweep[(cdiv(end - begin, points),)](*tensors, begin, end, domains, POINTS=points, DOMAINS=padded, num_warps=4)


def limits(scores: torch.Tensor, draws: Any, labels: Any, visits: Any, *graph: Any) -> str | None:
    if graph[0].dtype != torch.int32 or graph[1].dtype != torch.int32:
        return f"takes a graph of int32, not {graph[1].dtype}"
    if len(scores) > MOST_POINTS:
        return f"takes up to {MOST_POINTS} points, not {len(scores)}"
    return None


def lanes_fit(scores: torch.Tensor, *rest: Any) -> str | None:
    if scores.shape[1] > MOST_DOMAINS:
        return f"takes up to {MOST_DOMAINS} domains, not {scores.shape[1]}"
    return limits(scores, *rest)


RUNGS = (
    make_rung(HERE, "k01_thread_per_point", "one thread per point, each logit computed three times", thread_per_point,
              dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k02_lanes_per_point", "a team of lanes per point, four domains per lane", lanes_per_point,
              dtypes=DTYPES, limits=lanes_fit),
    make_rung(HERE, "k03_triton", "blocks of points in Triton, one loop over edges", triton, dtypes=DTYPES,
              limits=lanes_fit),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k02 where it takes the arguments: PyTorch stores several (N, K) arrays and synchronises."""
    return first_taking(SPEC, RUNGS, args, "k02_lanes_per_point")
