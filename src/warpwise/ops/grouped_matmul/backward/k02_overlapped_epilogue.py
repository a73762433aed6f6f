"""The launcher of k02, its limits and configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.device.limits import requires_hopper
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.limits import tiles_limit
from warpwise.gemm.persistent import batched_configs, batched_grid
from warpwise.operation import cdiv, sm_count

OVERLAPPED_EPILOGUE = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(
    result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor, config: str | None = None
) -> None:
    tile = GemmConfig.parse(config or configs(a, grad_output, offsets)[0])
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
    """A Hopper GPU, matrices that TMA can address, and contiguous rows, one at least."""
    if a.shape[0] == 0:
        return "takes 1 row or more, not 0"
    for name, operand in (("a", a), ("grad_output", grad_output)):
        if boxes.is_transposed(operand):
            return f"takes {name} with contiguous rows, not strides {tuple(operand.stride())}"
        if operand.shape[1] % (16 // a.element_size()):
            return f"takes columns of {name} in multiples of {16 // a.element_size()}, not {operand.shape[1]}"
    reason = requires_hopper(a) or boxes.tma_limit("a", a) or boxes.tma_limit("grad_output", grad_output)
    return reason or tiles_limits(a, grad_output, offsets)


def tiles_limits(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    k, n = a.shape[1], grad_output.shape[1]
    return tiles_limit(offsets.shape[0] * cdiv(k, 64) * cdiv(n, 64), rows=a.shape[0], n=n, k=k)


def configs(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every configuration that stores box by box, in the order estimated for groups of equal size: a batched product of
    (groups, k, rows) and (rows, n)."""
    groups = offsets.shape[0]
    rows = cdiv(a.shape[0], max(1, groups))
    ranked = batched_configs(a[:rows].t().expand(groups, -1, -1), grad_output[:rows])
    return tuple(name for name in ranked if not GemmConfig.parse(name).whole)
