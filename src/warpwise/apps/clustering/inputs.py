"""Checks of a fit's arguments, and their conversion to float32 tensors on the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from warpwise.apps.clustering.estimator import as_tensor, check_numbers, warn
from warpwise.apps.clustering.graph import Graph, from_sparse, symmetric
from warpwise.apps.clustering.lattices import check_shape, grid
from warpwise.apps.clustering.parallel import Alone
from warpwise.apps.clustering.points import launch_centred_rows, statistics_of_columns, sums_of_products
from warpwise.apps.clustering.smoothing import neighbour_differences
from warpwise.apps.clustering.spatial_hash import check_coords, knn

_BLOCK, _BLOCK_ON_GPU = 1 << 16, 1 << 17  # points that are converted to float64 at a time
# On a GPU: elements of a block of features, fewest points of a block, and most blocks, so that the host launches them
# faster than they run.
_ELEMENTS, _FEWEST, _MOST_BLOCKS = 1 << 21, 1 << 14, 64
_SHORT = 64  # most features of a row that a GPU gathers element by element
_SPLITS = 256  # on a GPU, the matrix products whose sum is a covariance
_CPU = torch.device("cpu")
_ROUNDED = 2  # a deviation of up to this many units of precision of the largest value is a rounding error
_LEAST = 1e-300  # the least deviation, so that its inverse is finite
_FENCE = 1.5  # interquartile ranges from the quartiles to the fences (Tukey 1977)
_QUARTILES, _QUARTILE_ELEMENTS = 1 << 16, 1 << 24  # most points and elements of which quartiles are computed


def graph_of(
    n_points: int,
    coords: Any,
    graph: Any,
    shape: Sequence[int] | None,
    neighbours: int,
    device: torch.device = _CPU,
) -> Graph:
    """The graph on ``device`` of ``n_points`` points from at most one of its three descriptions; no edges if none is
    given.

    Raises ``ValueError`` if two are given, or if the description has another number of points.
    """
    names = ("coords", "graph", "shape")
    given = [name for name, value in zip(names, (coords, graph, shape), strict=True) if value is not None]
    if len(given) > 1:
        raise ValueError(f"expected one of coords, graph and shape, got {' and '.join(given)}")
    if coords is not None:
        points = check_coords(coords)
        if points.shape[0] != n_points:
            raise ValueError(f"coords: expected {n_points} rows, as X has, got {points.shape[0]}")
        return knn(points, neighbours, device)
    if graph is not None:
        built = graph if isinstance(graph, Graph) else from_sparse(graph)
        if built.n_points != n_points:
            raise ValueError(f"graph: expected {n_points} points, as X has, got {built.n_points}")
        return built.to(device)
    if shape is not None:
        check_shape(shape)
        if (found := math.prod(map(int, shape))) != n_points:
            raise ValueError(f"shape: {tuple(shape)} has {found} points, but X has {n_points}")
        return grid(shape, "auto", device)
    none = torch.empty(0, dtype=torch.int64)
    return symmetric(none, none, n_points).to(device)


class Metric(NamedTuple):
    """(X - mean) @ matrix (D, D') are the coordinates of a fit, and their product with ``inverse`` (D', D), plus the
    ``mean`` (D,), is X without its constant directions."""

    mean: torch.Tensor
    matrix: torch.Tensor
    inverse: torch.Tensor


def whitening(
    X: torch.Tensor,
    graph: Graph,
    parallel: Alone | None = None,
    order: torch.Tensor | None = None,
    whiten: bool = True,
) -> Metric:
    """The metric in which half of the covariance of the differences of neighbours is the identity; without edges, the
    covariance of the points is. Directions without variance are dropped, so that D' <= D; if no direction has variance,
    one column of zeros remains. Without ``whiten`` the matrix is the multiple of the identity for which the mean of
    these variances is 1.

    Most neighbours share a domain, so this covariance is close to that of the noise within domains, in any units of X.
    A feature that varies only within the precision of its dtype is dropped, with a warning. Row i of ``graph`` is point
    ``order[i]``, or i without ``order``. Raises ``ValueError`` if the sum of a feature overflows.
    """
    parallel = Alone(len(X)) if parallel is None else parallel
    own, n, width = parallel.own, parallel.n_points, X.shape[1]
    mean, deviation, low, high = _spread(X[:own], parallel)
    largest = torch.maximum(high, -low)
    if X.dtype == torch.float64 and not bool(torch.isfinite(mean).all()):
        raise ValueError(f"X: expected features whose sum is finite, got values up to {float(largest.max()):g}")
    varies, precise = low < high, deviation > (_ROUNDED * torch.finfo(X.dtype).eps * largest).clamp(min=_LEAST)
    unit = torch.where(varies & precise, 1 / deviation, 0)
    scaled = affine(X, mean, unit, order)
    total = parallel.sum(sum_of_products(scaled[:own], scaled[:own])) / n
    noise = total
    if graph.columns.numel() or type(parallel) is not Alone:  # other processes may have edges
        # sum_ij w_ij (x_i - x_j)(x_i - x_j)^T / 2 = sum_i x_i sum_j w_ij (x_i - x_j)^T
        across = neighbour_differences(graph, scaled)
        degree = parallel.sum(graph.degree[:own].sum(dtype=torch.float64))
        noise = parallel.sum(sum_of_products(scaled[:own], across[:own])) / -degree
        noise = torch.where(degree > 0, (noise + noise.T) / 2 + 1e-3 * total, total)
        del across
    del scaled
    # The rest is small: the host waits once for a GPU.
    parts = torch.cat([noise.flatten(), unit, deviation, (varies & ~precise).double()]).cpu()
    noise, unit, deviation, imprecise = parts.split([width**2, width, width, width])
    if whiten and (dropped := imprecise.nonzero()[:, 0].tolist()):
        which = f"{len(dropped)} features, feature {dropped[0]} first, vary only within the precision of {X.dtype}"
        warn(f"X: {which}: they have no effect")
    matrices = _matrices(noise.view(width, width), unit, deviation, whiten)
    return Metric(mean, *(matrix.to(X.device) for matrix in matrices))


def _matrices(
    noise: torch.Tensor, unit: torch.Tensor, deviation: torch.Tensor, whiten: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """``matrix`` and ``inverse`` of a ``Metric``, on the CPU. ``noise`` (D, D) is the covariance of the noise of the
    features after these are multiplied by ``unit`` (D,), which is 1 / ``deviation``, or 0 for features without effect.
    """
    width = len(unit)
    if not whiten:
        same = torch.eye(width, dtype=noise.dtype)
        used = unit[unit > 0]
        if not len(used):
            return same, same
        power = _power_of_two(used.max())
        level = (noise.diagonal()[unit > 0] / (used * power).square()).mean().sqrt() * power
        return same / level, same * level
    values, vectors = torch.linalg.eigh(noise)
    kept = values > 1e-7 * values.amax().clamp(min=1e-300)
    if not bool(kept.any()):
        return noise.new_zeros(width, 1), noise.new_zeros(1, width)
    roots, vectors = values[kept].sqrt(), vectors[:, kept]
    inverse = roots[:, None] * vectors.T * torch.where(unit > 0, deviation, 0)
    return unit[:, None] * vectors / roots, inverse


def _spread(X: torch.Tensor, parallel: Alone) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean, standard deviation, minimum and maximum (D,) float64 of the columns over all points; the rows of X are
    those of the process."""
    n, squares, power = parallel.n_points, None, torch.ones((), dtype=torch.float64, device=X.device)
    if X.is_cuda and X.dtype == torch.float32:
        columns = statistics_of_columns(X.contiguous())
        mean = parallel.sum(len(X) * columns.first + columns.sums) / n
        away, low, high = mean - columns.first, columns.low, columns.high
        # sum (x - mean)^2 = sum (x - first)^2 - 2 away sum (x - first) + N away^2
        squares = columns.squares - 2 * away * columns.sums + len(X) * away.square()
    else:
        mean = parallel.sum(X.sum(0, dtype=torch.float64)) / n
        low, high = torch.aminmax(X, dim=0)
    high, opposite = parallel.largest(torch.stack([high, -low]).double())
    if squares is None:
        power, squares = _power_of_two(torch.maximum(high, opposite)), torch.zeros_like(mean)
        for part in X.split(_block(X)):
            squares += (part.to(torch.float64) - mean).mul_(power).square_().sum(0)
    # Rounding errors can make a sum of squares about the mean negative.
    return mean, (parallel.sum(squares) / n).clamp(min=0).sqrt() / power, -opposite, high


def clipped(X: torch.Tensor, source: Any = None) -> torch.Tensor:
    """X (N, D) with each feature moved between its fences, 1.5 interquartile ranges beyond its quartiles.

    The quartiles are those of at most 65,536 evenly spaced rows of ``source``, by default X. A feature whose quartiles
    are equal keeps its values.
    """
    source = X if source is None else source
    most = max(1024, min(_QUARTILES, _QUARTILE_ELEMENTS // X.shape[1]))
    places = torch.arange(0, len(source), -(-len(source) // most), device=X.device)
    ordered = rows_of(source, places, X.device).sort(0).values
    low, high = ordered[len(places) // 4], ordered[3 * len(places) // 4]
    reach = torch.where(high > low, _FENCE * (high - low), torch.inf)
    return X.clamp(low - reach, high + reach)


def _power_of_two(values: torch.Tensor) -> torch.Tensor:
    """Powers of two near 1 / ``values`` (float64, at least 0): products with them are exact."""
    values = values.clamp(min=_LEAST)
    return torch.frexp(values).mantissa / values


def affine(
    X: torch.Tensor, mean: torch.Tensor, matrix: torch.Tensor, order: torch.Tensor | None = None
) -> torch.Tensor:
    """(N, D') float32: (X - mean) @ matrix, of the rows X[order] if ``order`` is given, block by block. A ``matrix``
    (D,) is diagonal. Computed in float64, on a GPU in the dtype of X: differences of float32 near ``mean`` are exact.
    """
    dtype = X.dtype if X.is_cuda else torch.float64
    mean, matrix = mean.to(dtype), matrix.to(dtype)
    n = len(X) if order is None else len(order)
    result = torch.empty(n, matrix.shape[-1], dtype=torch.float32, device=X.device)
    if X.is_cuda and X.dtype == torch.float32:
        X = X.contiguous()
        if matrix.dim() == 1:
            launch_centred_rows(X, order, mean, matrix, result)
            return result
        for part in result.split(_block(X)):
            begin = part.storage_offset() // part.shape[1]
            rows = X.new_empty(len(part), X.shape[1])
            here = X[begin : begin + len(part)] if order is None else X
            launch_centred_rows(here, None if order is None else order[begin : begin + len(part)], mean, None, rows)
            torch.mm(rows, matrix, out=part)
        return result
    for begin in range(0, len(result), _block(X)):
        part = slice(begin, begin + _block(X))
        rows = (X[part] if order is None else _rows(X, order[part])).to(dtype) - mean
        result[part] = rows * matrix if matrix.dim() == 1 else rows @ matrix
    return result


def rows_of(X: Any, ids: torch.Tensor, device: torch.device) -> torch.Tensor:
    """X[ids] of a tensor or an array (N, D), on ``device``, as float32 or float64."""
    if isinstance(X, torch.Tensor) and X.is_cuda and X.device == device and X.dtype == torch.float32:
        rows = X.new_empty(len(ids), X.shape[1])
        launch_centred_rows(X.contiguous(), ids, None, None, rows)
    elif isinstance(X, torch.Tensor):
        rows = _rows(X, ids.to(X.device)).to(device)
    else:
        rows = as_tensor(np.ascontiguousarray(X[ids.cpu().numpy()])).to(device)
    return rows if rows.dtype in (torch.float32, torch.float64) else rows.float()


def _rows(X: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """X[indices]. On a GPU, PyTorch's index_select launches a thread block for each row, also for short rows."""
    if not X.is_cuda or X.shape[1] > _SHORT:
        return X[indices]
    return X.gather(0, indices[:, None].expand(-1, X.shape[1]))


def _block(X: torch.Tensor) -> int:
    """Points of a block. On a GPU its two copies in float64 take 32 MB, at most about X, or X / 16 if that is more."""
    if not X.is_cuda:
        return _BLOCK
    return max(_FEWEST, min(_BLOCK_ON_GPU, _ELEMENTS // X.shape[1], len(X) // 4), len(X) // _MOST_BLOCKS)


def sum_of_products(first: torch.Tensor, second: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
    """(D, E) float64: the sum over the points of the products of ``first`` (N, D) and ``second`` (N, E), times
    ``weights`` (N,) float64 if given."""
    if first.is_cuda and first.dtype == second.dtype == torch.float32 and weights is None:
        return sums_of_products(first, second)
    result = first.new_zeros(first.shape[1], second.shape[1], dtype=torch.float64)
    for begin in range(0, len(first), _block(first)):
        part = slice(begin, begin + _block(first))
        rows = second[part].double() if weights is None else second[part] * weights[part, None]
        result += _product(first[part].double(), rows)
    return result


def _product(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """first.T @ second; on a GPU as the sum of many products, because one with few rows and columns uses few SMs."""
    if not first.is_cuda:
        return first.T @ second
    rows = len(first) // _SPLITS * _SPLITS
    split = first[:rows].view(_SPLITS, -1, first.shape[1]).mT @ second[:rows].view(_SPLITS, -1, second.shape[1])
    product = split.sum(0)
    return product if rows == len(first) else product + first[rows:].T @ second[rows:]


def interaction_of(prior: Any, n_domains: int, reach: int = 3) -> torch.Tensor | None:
    """The matrix V (K, K) of ``prior``: None for "potts", -min(|k - l|, reach) for "layers", or a symmetric matrix."""
    expected = f'"potts", "layers" or a ({n_domains}, {n_domains}) matrix'
    if isinstance(prior, str):
        if prior == "potts":
            return None
        if prior == "layers":
            place = torch.arange(n_domains)
            return -(place[:, None] - place).abs().clamp(max=reach).float()
        raise ValueError(f"prior: expected {expected}, got {prior!r}")
    matrix = check_numbers("prior", prior, expected)
    if matrix.shape != (n_domains, n_domains):
        raise ValueError(f"prior: expected {expected}, got shape {tuple(matrix.shape)}")
    if not bool(torch.isfinite(matrix).all()) or not torch.allclose(matrix, matrix.T):
        raise ValueError("prior: expected a symmetric matrix of finite values")
    return matrix
