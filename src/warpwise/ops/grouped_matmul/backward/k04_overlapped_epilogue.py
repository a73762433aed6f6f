"""The launcher of k04, its limits and configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm.config import GemmConfig, chosen
from warpwise.gemm.limits import requires_hopper
from warpwise.gemm.persistent import BATCHED, batched_configs, batched_grid
from warpwise.operation import sm_count
from warpwise.ops.grouped_matmul.backward._triton import descriptors_limits, even_groups

OVERLAPPED_EPILOGUE = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(
    result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor, config: str | None = None
) -> None:
    tile = chosen("grouped_matmul_backward", config or configs(a, grad_output, offsets)[0], BATCHED)
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]

    def shifted(matrix: torch.Tensor) -> Any:
        """(rows, rows, columns) whose element (x, y, j) is in row x + y: boxes read as zero before row x."""
        pitch = matrix.stride(0)
        return cuda.tensor_map(matrix, (1, 64, 64), layout=((rows, rows, matrix.shape[1]), (pitch, pitch, 1)))

    blocks, tiles_m, tiles_n, group = batched_grid(tile, groups, k, n, sm_count(a))
    maps = shifted(a), shifted(grad_output), cuda.tensor_map(result, (1, 64, 64))
    kernel = OVERLAPPED_EPILOGUE[f"grouped_matmul_backward_overlapped_epilogue<{tile.parameters(a.dtype)}>"]
    kernel[tile.launch(blocks)](*maps, offsets.contiguous(), groups, rows, tiles_m, tiles_n, group)


def limits(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A Hopper GPU, and the limits of k03."""
    return requires_hopper(a) or descriptors_limits(a, grad_output, offsets)


def configs(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every configuration that stores box by box, in the order that is estimated if all groups have as many rows."""
    ranked = batched_configs(*even_groups(a, grad_output, offsets))
    return tuple(name for name in ranked if not GemmConfig.parse(name).whole)
