"""What launches Hopper's kernels whose factors lie along K, for elements of 1 and 4 bytes: int8 (k22), and TF32 elsewhere."""

from __future__ import annotations

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops.matmul._shared import GRID_Y, HERE, sizes, too_large

TURNED = cuda.load(HERE / "turned.cu")
WARPGROUPS = cuda.load(HERE / "k22_warpgroups_int8.cu")
SHARED = 1024 + 4 * 3 * 16384 + 4 * 8192 + 64  # alignment, four slices of A and B, C on its way, barriers


def turned(matrix: torch.Tensor) -> torch.Tensor:
    """The transpose of a contiguous matrix of bytes or 4-byte elements, contiguous; of bytes, sizes are multiples of 4."""
    rows, columns = matrix.shape
    result = matrix.new_empty((columns, rows))
    words, to = matrix.view(torch.int32), result.view(torch.int32)
    kernel, side = (TURNED["turned_bytes"], 128) if matrix.element_size() == 1 else (TURNED["turned_words"], 32)
    kernel[(cdiv(columns, side), cdiv(rows, side)), (32, 8)](words, cuda.out(to), rows, columns)
    return result


def deep(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` (rows, K) with K along contiguous rows that begin on 16 bytes: itself, or a copy."""
    if matrix.is_contiguous():
        return matrix if matrix.data_ptr() % 16 == 0 else matrix.clone()
    words = matrix.data_ptr() % 4 == 0 and matrix.shape[0] * matrix.element_size() % 4 == 0  # as a turned one is read
    if words and matrix.t().is_contiguous():
        return turned(matrix.t())
    return matrix.contiguous()


def launch(kernel: cuda.Kernel, c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Launch a kernel made of ``gemm_k_major::gemm``."""
    m, n, k = sizes(a, b)
    pairs, columns = cdiv(m, 256), cdiv(n, 256)
    clusters = min(pairs * columns, multiprocessors(a) // 2)
    box = 128, 128 // a.element_size()
    maps = cuda.tensor_map(deep(a), box), cuda.tensor_map(deep(b.t()), box), cuda.tensor_map(c, (64, 32))
    kernel[2 * clusters, 384, SHARED](*maps, k, pairs, columns, 8)


def warpgroups_int8(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    launch(WARPGROUPS["matmul_warpgroups_int8"], c, a, b)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A Hopper GPU, and rows of A, of B turned and of C that the copy engine can address."""
    if reason := not_hopper(a):
        return reason
    m, n, k = sizes(a, b)
    unit = 16 // a.element_size()
    if n % 4 or k % unit:
        return f"takes n in multiples of 4 and k of {unit}, whose rows begin on 16 bytes, not n = {n} and k = {k}"
    if (longest := max(m, k)) > 32 * GRID_Y:
        return f"takes m and k up to {32 * GRID_Y} (what turns a factor has a grid.y of 16 bits), not {longest}"
    return too_large(a, b)


def pays(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether k22's tiles give half of the SMs of a GPU that it runs on something to do."""
    m, n, _ = sizes(a, b)
    return a.is_cuda and 2 * cdiv(m, 128) * cdiv(n, 256) >= multiprocessors(a) and not limits(a, b)
