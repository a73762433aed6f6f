"""Passes over all points at the start and at the end of a fit: one kernel each on a GPU, PyTorch on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.apps.clustering.graph import Graph
from warpwise.operation import cdiv, sm_count
from warpwise.ops.potts_em_step.spec import rows_of

KERNELS = cuda.load(Path(__file__).with_suffix(".cu"))
_THREADS, _BLOCKS_AN_SM = 256, 8  # kThreads
_MOST_DOMAINS, _MOST_SHARED = 128, 96 * 1024  # bytes of the coefficients of a block
_TILE, _POINTS = 16, 8 * 16  # kTile; points of a step of a block
_MOST_SUMS = 1 << 20  # elements of the partial sums of products
_REST = 0.1  # the part of a start probability that all domains share


def q_of_labels(labels: torch.Tensor, k: int, out: torch.Tensor | None = None) -> torch.Tensor:
    """(N, R, k) float32: probabilities at the start of R fits, mostly those of ``labels`` (R, N); ``out`` if given,
    which may be bfloat16, in padded rows."""
    restarts, n = labels.shape
    q = torch.empty(n, restarts, k, dtype=torch.float32, device=labels.device) if out is None else out
    low, high = _REST / k, 1 - _REST + _REST / k
    if labels.is_cuda:
        launch_q_of_labels(labels.contiguous(), q, low, high)
    else:
        q.fill_(low).scatter_(2, labels.T[..., None].long(), high)
    return q


def launch_centred_rows(
    X: torch.Tensor,
    order: torch.Tensor | None,
    mean: torch.Tensor | None,
    scale: torch.Tensor | None,
    rows: torch.Tensor,
) -> None:
    """The kernel: ``rows`` (n, D) = (X[order] - mean) * scale, all of the dtype of X (N, D), ``order`` int64."""
    n, width = rows.shape
    if rows.numel():
        launch = KERNELS[f"centred_rows<{cuda.ctype(X.dtype)}>"][_blocks(X, rows.numel()), _THREADS]
        launch(X, order, mean, scale, cuda.out(rows), n, width)


def sums_of_products(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """(D, E) float64: the sum over the points of the products of ``first`` (N, D) and ``second`` (N, E): a kernel."""
    (n, width), depth = first.shape, second.shape[1]
    tiles = cdiv(width, _TILE) * cdiv(depth, _TILE)
    most = max(1, min(cdiv(3 * sm_count(first), tiles), _MOST_SUMS // (width * depth)))
    blocks = max(1, min(most, cdiv(n, 2 * _POINTS)))
    partials = first.new_empty((blocks, width, depth), dtype=torch.float64)
    launch = KERNELS["sums_of_products"][(blocks, tiles), _THREADS]
    launch(first.contiguous(), second.contiguous(), cuda.out(partials), n, width, depth)
    return partials.sum(0)


class Columns(NamedTuple):
    """Statistics (D,) float64 of the columns of X (N, D): the first row, the sums of the differences to it and of their
    squares, the smallest and the largest values."""

    first: torch.Tensor
    sums: torch.Tensor
    squares: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor


def statistics_of_columns(X: torch.Tensor) -> Columns:
    """The statistics of X (N, D) float32 by one kernel."""
    n, width = X.shape
    vector = 4 if width % 4 == 0 and X.data_ptr() % 16 == 0 else 1
    chunks = cdiv(width // vector, _THREADS)
    blocks = max(1, min(cdiv(_BLOCKS_AN_SM * sm_count(X), chunks), cdiv(X.numel(), 16 * vector * _THREADS)))
    partials = X.new_empty((blocks, 4, width), dtype=torch.float64)
    KERNELS[f"statistics_of_columns<{vector}>"][(blocks, chunks), _THREADS](X, cuda.out(partials), n, width)
    sums, squares = partials[:, :2].sum(0).unbind()
    return Columns(X[0].double(), sums, squares, partials[:, 2].amin(0), partials[:, 3].amax(0))


def launch_q_of_labels(labels: torch.Tensor, q: torch.Tensor, low: float, high: float) -> None:
    """The kernel: ``labels`` (R, N) uint8 or int32, ``q`` (N, R, K) float32 or bfloat16, with ``rows_of``."""
    (n, restarts, k), rows = q.shape, rows_of(q)
    assert rows is not None
    if n * restarts:
        kernel = KERNELS[f"q_of_labels<{cuda.ctype(labels.dtype)}, {cuda.ctype(q.dtype)}>"]
        out = cuda.out(q) if q.is_contiguous() else rows
        launch = kernel[_blocks(q, n * restarts * cdiv(k, 4)), _THREADS]
        launch(labels, out, n, restarts, k, rows.shape[2], low, high)


def results(
    parts: Iterator[tuple[torch.Tensor, torch.Tensor]], n: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Probabilities (n, K), labels (n,) int64 and 1 - the largest probability (n,) of all n points in their order.

    Each of ``parts`` is (q, ids): row i of q (any, K) is that of point ``ids[i]``.
    """
    first = next(parts)
    parts, k = chain([first], parts), first[0].shape[1]
    probabilities, uncertainty = first[0].new_empty(n, k), first[0].new_empty(n)
    labels = torch.empty(n, dtype=torch.int64, device=probabilities.device)
    if probabilities.is_cuda and k <= _MOST_DOMAINS:
        for q, ids in parts:
            launch_results(q, ids, probabilities, labels, uncertainty)
        return probabilities, labels, uncertainty
    for q, ids in parts:
        probabilities[ids] = q
    torch.argmax(probabilities, 1, out=labels)
    torch.sub(1, probabilities.amax(1), out=uncertainty)
    return probabilities, labels, uncertainty


def launch_results(
    q: torch.Tensor, ids: torch.Tensor, probabilities: torch.Tensor, labels: torch.Tensor, uncertainty: torch.Tensor
) -> None:
    """The kernel; ``ids`` (n,) are int64. Other rows of the results do not change."""
    n, k = q.shape
    lanes = _lanes(k)
    if n:
        launch = KERNELS["results_of_points"][_blocks(q, n * lanes), _THREADS]
        launch(q, ids, probabilities, labels, uncertainty, n, k, lanes)


def pseudo_likelihood(
    q: torch.Tensor,
    X: torch.Tensor,
    coefficients: tuple[torch.Tensor, torch.Tensor],
    graph: Graph,
    beta: torch.Tensor,
    external: torch.Tensor,
    temper: float,
    points: int,
) -> torch.Tensor:
    """() float64: sum_i log sum_k p(x_i | k)^temper p(z_i = k | neighbours) of the first ``points`` points: a kernel.

    ``q`` is (N, K), ``X`` (N, D), ``coefficients`` linear (K, D) and constant (K,), ``beta`` (1,), ``external`` (1 or
    N, K).
    """
    (linear, constant), k, width = coefficients, q.shape[1], X.shape[1]
    lanes = _lanes(k)
    blocks = _blocks(q, points * lanes)
    partials = q.new_empty(blocks, dtype=torch.float64)
    launch = KERNELS["pseudo_likelihood"][blocks, _THREADS, _shared(k, width)]
    edges = (graph.rowptr, graph.columns, graph.weights_or_none)
    launch(q, X, linear, constant, *edges, beta, external, cuda.out(partials), points, k, width,
           k if len(external) > 1 else 0, temper, lanes)  # fmt: skip
    return partials.sum()


def pseudo_likelihood_fits(domains: int, width: int) -> bool:
    """True if ``pseudo_likelihood`` takes so many domains and features."""
    return domains <= _MOST_DOMAINS and _shared(domains, width) <= _MOST_SHARED


def _shared(domains: int, width: int) -> int:
    return 4 * 4 * _lanes(domains) * width


def _lanes(domains: int) -> int:
    """Lanes of four domains each, a power of two."""
    return 1 << (cdiv(domains, 4) - 1).bit_length()


def _blocks(tensor: torch.Tensor, threads: int) -> int:
    return max(1, min(_BLOCKS_AN_SM * sm_count(tensor), cdiv(threads, _THREADS)))
