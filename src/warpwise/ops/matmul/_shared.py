"""Launches of one block per tile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.limits import grid_of_tiles, requires_k
from warpwise.gemm.operands import flags, sizes
from warpwise.operation import cdiv, sm_count

HERE = Path(__file__).parent


def vectorisable(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> str:
    """True, as a template argument, if rows of all three can be read in aligned vectors of four elements."""
    four = 4 * a.element_size()
    whole = a.shape[1] % 4 == 0 and b.shape[1] % 4 == 0 and all(value.data_ptr() % four == 0 for value in (a, b, c))
    return flags(whole)


def tiled(
    kernel: str, file: str, tile: tuple[int, int], block: int | tuple[int, int], vectors: bool = False
) -> Callable[..., None]:
    """A launch of one block for each ``tile`` (rows, columns) of C; grid.x counts columns."""
    module = cuda.load(HERE / file)

    def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        m, n, k = sizes(a, b)
        arguments = f"{cuda.ctype(a.dtype)}, {vectorisable(c, a, b)}" if vectors else cuda.ctype(a.dtype)
        grid = cdiv(n, tile[1]), cdiv(m, tile[0])
        module[f"{kernel}<{arguments}>"][grid, block](a, b, cuda.out(c), m, n, k)

    return launch


NAIVE, WARP_TILE, ASYNC_COPIES = (
    cuda.load(HERE / f"{name}.cu") for name in ("k03_naive", "k08_warp_tile", "k10_async_copies")
)


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    types = cuda.ctype(a.dtype) if c.dtype == a.dtype else f"{cuda.ctype(a.dtype)}, {cuda.ctype(c.dtype)}"
    NAIVE[f"matmul_naive<{types}>"][(cdiv(m, 32), cdiv(n, 32)), (32, 32)](a, b, cuda.out(c), m, n, k)


def warp_tile(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Tiles of 128 x 128 per block, 32 x 64 per warp and 8 x 8 per thread, or smaller ones if C has too few tiles."""
    m, n, k = sizes(a, b)
    large = m > 64 and n > 64 and cdiv(m, 128) * cdiv(n, 128) >= sm_count(a)
    side, tiles, threads = (128, "128, 128, 16, 32, 64", 256) if large else (64, "64, 64, 16, 32, 32", 128)
    kernel = WARP_TILE[f"matmul_warp_tile<{cuda.ctype(a.dtype)}, {tiles}, {vectorisable(c, a, b)}>"]
    kernel[(cdiv(n, side), cdiv(m, side)), threads](a, b, cuda.out(c), m, n, k)


def async_copies(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """8 x 8 sums in 256 threads, two blocks per SM; 8 x 16 in 128, three blocks, if large tiles do not fill the GPU."""
    m, n, k = sizes(a, b)
    large = cdiv(m, 128) * cdiv(n, 128) >= 2 * sm_count(a)
    rows, threads, stages, arguments = (
        (128, 256, 3, "128, 128, 16, 32, 64, 4, 3, 2, false")
        if large
        else (64, 128, 4, "64, 128, 16, 32, 64, 4, 4, 3, true")
    )
    whole = n % 4 == 0 and b.data_ptr() % 16 == 0 and c.data_ptr() % 16 == 0
    tiles = cdiv(m, rows), cdiv(n, 128)
    shared = stages * 16 * (rows + 4 + 128) * 4
    kernel = ASYNC_COPIES[f"matmul_async_copies<{arguments}, {flags(whole)}>"]
    kernel[tiles[0] * tiles[1], threads, shared](a, b, cuda.out(c), m, n, k, *tiles, 8)


def async_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits: a grid of tiles, and K of at least 1, because the kernel loads a k-tile before its loop."""
    return requires_k(a.shape[1]) or grid_of_tiles(a, b)
