"""The launcher of Hopper's int8 kernel, k22, whose factors have K along their rows."""

from __future__ import annotations

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops.matmul._shared import HERE, sizes, too_large

TURNED = cuda.load(HERE / "turned_bytes.cu")
WARPGROUPS = cuda.load(HERE / "k22_warpgroups_int8.cu")
SHARED = 1024 + 4 * 3 * 16384 + 4 * 8192 + 64  # alignment, four slices of A and B, C on its way, barriers


def turned(matrix: torch.Tensor) -> torch.Tensor:
    """The transpose of a contiguous matrix of bytes, contiguous; its sizes are multiples of 4."""
    rows, columns = matrix.shape
    result = matrix.new_empty((columns, rows))
    words, to = matrix.view(torch.int32), result.view(torch.int32)
    TURNED["turned_bytes"][(cdiv(columns, 128), cdiv(rows, 128)), (32, 8)](words, cuda.out(to), rows, columns)
    return result


def deep(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` (rows, K) with K along contiguous rows that begin on 16 bytes: itself, or a copy."""
    if matrix.is_contiguous():
        return matrix if matrix.data_ptr() % 16 == 0 else matrix.clone()
    if matrix.t().is_contiguous() and matrix.data_ptr() % 4 == 0:
        return turned(matrix.t())
    return matrix.contiguous()


def warpgroups_int8(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    pairs, columns = cdiv(m, 256), cdiv(n, 256)
    clusters = min(pairs * columns, multiprocessors(a) // 2)
    maps = cuda.tensor_map(deep(a), (128, 128)), cuda.tensor_map(deep(b.t()), (128, 128)), cuda.tensor_map(c, (64, 32))
    WARPGROUPS["matmul_warpgroups_int8"][2 * clusters, 384, SHARED](*maps, k, pairs, columns, 8)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A Hopper GPU, and rows of A, of B turned and of C that the copy engine can address."""
    if a.is_cuda and torch.cuda.get_device_capability(a.device) != (9, 0):
        return "takes a GPU of compute capability 9.0: its matrix products exist there alone"
    m, n, k = sizes(a, b)
    if n % 4 or k % 16:
        return f"takes n in multiples of 4 and k of 16, whose rows begin on 16 bytes, not n = {n} and k = {k}"
    if cdiv(k, 128) > 65535 or cdiv(m, 128) > 65535:
        return f"takes up to {65535 * 128} rows of a and b (grid.y is 16 bits), not m = {m} and k = {k}"
    return too_large(a, b)


def pays(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether k22's tiles fill a GPU that it runs on."""
    return a.is_cuda and cdiv(a.shape[0], 128) * cdiv(b.shape[1], 256) >= multiprocessors(a) and not limits(a, b)
