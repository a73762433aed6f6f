"""The launcher of k22. Its limits are those of ``gemm.k_major``."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import k_major

WARPGROUPS_INT8 = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    launch_k_major(c, k_major.k_major(a), k_major.k_major(b.t()))


def launch_k_major(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """c (M, N) of K-major a (M, K) and b (N, K)."""
    k_major.launch_clusters(WARPGROUPS_INT8["matmul_warpgroups_int8"], a, b, cuda.tensor_map(c, (64, 32)))
