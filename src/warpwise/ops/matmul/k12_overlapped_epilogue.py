"""The launcher of k12, and its limits. Its configurations are those of ``gemm.persistent``."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.limits import copyable_limits
from warpwise.gemm.operands import on_16_bytes, sizes, tma_operand
from warpwise.gemm.persistent import tile_scheduler, wide_columns

OVERLAPPED_EPILOGUE = cuda.load(Path(__file__).with_suffix(".cu"))
Read = tuple[torch.Tensor, bool]


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    multiply(c, a, b, tma_operand(a), tma_operand(b), config)


def multiply(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, read_a: Read, read_b: Read, config: str | None) -> None:
    """Launch the kernel for a and b as TMA reads them: a view or a copy, and True if it is the transpose."""
    chosen, geometry, tiles = tile_scheduler(a, b, config)
    by_tma = on_16_bytes(c)
    if chosen.tile_rows:
        maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (read_a[0], read_b[0], c)]
        name = f"matmul_overlapped_epilogue_variable_n<{chosen.parameters(a.dtype, read_a[1], not read_b[1])}>"
        OVERLAPPED_EPILOGUE[name][geometry](*maps, a.shape[1], *tiles, wide_columns(chosen, b.shape[1]))
        return
    map_a, map_b = (cuda.tensor_map(matrix, (64, 64)) for matrix, _ in (read_a, read_b))
    map_c, rows = (cuda.tensor_map(c, (64, 64)), None) if by_tma else (map_a, cuda.out(c))
    name = "matmul_overlapped_epilogue" if chosen.blocks > 1 else "matmul_overlapped_epilogue_no_cluster"
    kernel = OVERLAPPED_EPILOGUE[f"{name}<{chosen.parameters(a.dtype, read_a[1], not read_b[1], by_tma)}>"]
    kernel[geometry](map_a, map_b, map_c, rows, *sizes(a, b), *tiles)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits: 16-byte aligned rows of C, and those of operands that are loaded in place or copied."""
    if b.shape[1] % 8:
        return f"takes n in multiples of 8, so that rows of c begin at multiples of 16 bytes, not n = {b.shape[1]}"
    return copyable_limits(a, b)
