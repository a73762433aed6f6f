"""Launchers of Hopper's kernels: the copy engine, warpgroup products, clusters."""

from __future__ import annotations

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops.matmul._shared import HERE, sizes, too_large

WARPGROUPS = cuda.load(HERE / "k12_warpgroups.cu")
WARPGROUPS_SHARED = (
    1024 + 4 * (2 + 4) * 8192 + 4 * 8192 + 64
)  # alignment, four slices of A and B, C on its way, barriers


def warpgroups(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    pairs, columns = cdiv(m, 256), cdiv(n, 256)
    clusters = min(pairs * columns, multiprocessors(a) // 2)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (a, b, c)]
    kernel = WARPGROUPS[f"matmul_warpgroups<{cuda.ctype(a.dtype)}>"]
    kernel[2 * clusters, 384, WARPGROUPS_SHARED](*maps, k, pairs, columns, 8)


def copy_engine(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits of k12: a Hopper GPU, and rows that the copy engine can address."""
    if a.is_cuda and torch.cuda.get_device_capability(a.device) != (9, 0):
        return "takes a GPU of compute capability 9.0: its matrix products exist there alone"
    _, n, k = sizes(a, b)
    if n % 8 or k % 8:
        return f"takes n and k in multiples of 8, whose rows begin on 16 bytes, not n = {n} and k = {k}"
    if any(matrix.data_ptr() % 16 and matrix.is_contiguous() for matrix in (a, b)):
        return "takes a and b that begin on 16 bytes"
    return too_large(a, b)
