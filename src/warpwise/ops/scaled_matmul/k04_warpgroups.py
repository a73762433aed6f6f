"""The launcher of k04."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.ops.scaled_matmul._shared import WIDE, launch_clusters

WARPGROUPS = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
    launch_clusters(WARPGROUPS, "scaled_matmul_warpgroups", "", WIDE, c, a, b, scale_a, scale_b)
