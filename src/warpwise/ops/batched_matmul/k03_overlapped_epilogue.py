"""The launcher of k03. Its limits are those of ``gemm.boxes``, its configurations those of ``gemm.persistent``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import Shape
from warpwise.gemm.persistent import batched_configs, batched_grid
from warpwise.operation import sm_count

OVERLAPPED_EPILOGUE = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    batch, m, n, k = Shape.of(a, b)
    tile = GemmConfig.parse(config or batched_configs(a, b)[0])
    (map_a, a_mn_major, a_step), (map_b, b_k_major, b_step) = operand_map(a), operand_map(b)
    template = tile.parameters(a.dtype, tile.whole, a_mn_major, not b_k_major)
    blocks, rows, columns, group = batched_grid(tile, batch, m, n, sm_count(a))
    OVERLAPPED_EPILOGUE[f"batched_matmul_overlapped_epilogue<{template}>"][tile.launch(blocks)](
        map_a, map_b, cuda.tensor_map(c, (1, 64, 64)), a_step, b_step, batch, k, rows, columns, group
    )


def operand_map(operand: torch.Tensor) -> tuple[Any, bool, int]:
    """A tensor map with boxes of 64 x 64; True if it is of the transposes; 0 if the operand is broadcast, else 1."""
    matrices, transposed = boxes.one_matrix(operand), boxes.is_transposed(operand)
    lines, one = matrices.mT if transposed else matrices, len(matrices) == 1
    pitch = lines.stride(1)
    lines = lines.as_strided(lines.shape, (pitch if one else lines.stride(0), pitch, 1))
    return cuda.tensor_map(lines, (1, 64, 64)), transposed, int(not one)
