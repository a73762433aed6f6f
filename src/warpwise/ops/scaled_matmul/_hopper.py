"""The launchers of Hopper's kernels: the copy engine, warpgroup products, clusters."""

from __future__ import annotations

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops.scaled_matmul._operands import HERE, Launch, aligned, copy_engine, factors, scales

WARPGROUPS = cuda.load(HERE / "k04_warpgroups.cu")
TWO_SLICES = cuda.load(HERE / "k05_two_slices.cu")
SHARED = 1024 + 4 * 3 * 16384 + 4 * 8192 + 64  # alignment, four slices of A and B, C on its way, barriers


def launch_of(module: cuda.Module, kernel: str) -> Launch:
    def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
        left, right = (aligned(factor) for factor in factors(a, b))
        scale_a, scale_b, by_row = scales(scale_a, scale_b)
        if by_row and scale_b.data_ptr() % 8:  # they are read in twos
            scale_b = scale_b.clone()
        (m, k), n = left.shape, right.shape[0]
        pairs, columns = cdiv(m, 256), cdiv(n, 256)
        clusters = min(pairs * columns, multiprocessors(a) // 2)
        maps = cuda.tensor_map(left, (128, 128)), cuda.tensor_map(right, (128, 128)), cuda.tensor_map(c, (64, 64))
        types = f"{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}, {str(by_row).lower()}"
        module[f"{kernel}<{types}>"][2 * clusters, 384, SHARED](*maps, scale_a, scale_b, m, n, k, pairs, columns, 8)

    return launch


warpgroups = launch_of(WARPGROUPS, "scaled_matmul_warpgroups")
two_slices = launch_of(TWO_SLICES, "scaled_matmul_two_slices")


def hopper(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    """The limits of both: a Hopper GPU, and rows that the copy engine can address."""
    if a.is_cuda and torch.cuda.get_device_capability(a.device) != (9, 0):
        return "takes a GPU of compute capability 9.0: its matrix products exist there alone"
    return copy_engine(a, b)
