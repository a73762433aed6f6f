"""The launcher of k19. Its limits are those of ``gemm.k_major``."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import k_major
from warpwise.gemm.padding import k_major_operands

WARPGROUPS_INT8 = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    left, right = k_major_operands(a, b.t())
    k_major.launch_clusters(WARPGROUPS_INT8, left, right, c)
