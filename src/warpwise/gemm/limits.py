"""Limits of GEMM kernels: the range of sizes and of grids, and matrices for Hopper."""

from __future__ import annotations

from collections.abc import Callable

import torch

from warpwise.device.limits import requires_hopper
from warpwise.gemm.operands import Shape, addressable_view, sizes
from warpwise.operation import cdiv

MAX_SIZE = 2**31 - 1024  # indices of rows, columns and k are 32 bits and reach up to a tile past the end
GRID_Y = 65535


def requires_k(k: int) -> str | None:
    """The reason why a kernel with tensor maps does not take K = 0, or None: a tensor map has no dimension of 0."""
    return "takes k of 1 or more, not 0" if k == 0 else None


def sizes_limit(**named: int) -> str | None:
    """The message if a size does not fit into 32 bits, or None."""
    for name, size in named.items():
        if size > MAX_SIZE:
            return f"takes sizes up to {MAX_SIZE}, not {name} = {size}"
    return None


def size_limit(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limit of kernels of a (M, K) and b (K, N) whose grid has one dimension."""
    m, n, k = sizes(a, b)
    return sizes_limit(m=m, n=n, k=k)


def grid_y_limit(count: int, tile: int, what: str) -> str | None:
    """The message if ``count`` rows or columns (``what``) need too many blocks of ``tile`` in grid.y, or None."""
    return f"takes up to {tile * GRID_Y} {what} (grid.y is 16 bits), not {count}" if count > tile * GRID_Y else None


def hopper_limits(a: torch.Tensor, b: torch.Tensor, *rest: object) -> str | None:
    """The limit of kernels for Hopper: a Hopper GPU. Operands that TMA cannot address are copied."""
    return requires_hopper(a) or requires_k(a.shape[1]) or size_limit(a, b)


def copyable_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits of kernels for Hopper, and 2-byte operands that TMA can address in place or in a row-major copy."""
    if reason := requires_hopper(a) or requires_k(a.shape[1]):
        return reason
    for name, matrix in (("a", a), ("b", b)):
        if matrix.shape[1] % 8 and addressable_view(matrix) is None:
            return (
                f"takes {name} whose rows or columns begin at multiples of 16 bytes, or can be copied so, "
                f"not shape {tuple(matrix.shape)} with strides {matrix.stride()}"
            )
    return size_limit(a, b)


def tiles_limit(tiles: int, **named: int) -> str | None:
    """The limit of a grid with one program for each of ``tiles`` tiles of 64 x 64, for these sizes."""
    return f"takes up to 2**31 - 1 tiles of 64 x 64, not {tiles}" if tiles >= 2**31 else sizes_limit(**named)


def grid_of_tiles(a: torch.Tensor, b: torch.Tensor, *rest: object) -> str | None:
    """``tiles_limit`` of a @ b, matrices or batches."""
    shape = Shape.of(a, b)
    return tiles_limit(shape.batch * cdiv(shape.m, 64) * cdiv(shape.n, 64), **shape._asdict())


def grid_y_of(tile: int, dimension: int) -> Callable[..., str | None]:
    """The limit of a grid whose y dimension counts tiles of ``tile`` along dimension 0 (m) or 1 (n)."""
    what = ("rows of a", "columns of b")[dimension]
    return lambda a, b: grid_y_limit(sizes(a, b)[dimension], tile, what) or size_limit(a, b)
