"""The launcher of k02, for ``warpwise/sm90/gemm_epilogue.cuh``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.fused import activation_number
from warpwise.gemm.operands import flags
from warpwise.gemm.persistent import tile_scheduler

WARPGROUPS = cuda.load(Path(__file__).with_suffix(".cu"))


def shared_bytes(config: GemmConfig) -> int:
    """Bytes of shared memory: the main loop's, and for each warpgroup a bias, row scales and barriers."""
    width = config.n // config.warpgroup_grid[1]
    return config.shared + config.warpgroups * (width * 2 + 64 * 4 + 2 * 8)


def aligned_pairs(vector: torch.Tensor) -> torch.Tensor:
    """``vector``, or a copy if it is not aligned to 4 bytes: the kernel loads two 2-byte elements at a time."""
    return vector.clone() if vector.data_ptr() % 4 else vector


def launch(problem: Any, config: str | None) -> None:
    """A source of one row is added as a bias."""
    a, b, result, kept, bias, scale, activation, source, alpha, beta = problem
    scaled = alpha is not None
    if source is not None and scaled and (source.stride(0) == 0 or source.shape[0] == 1):
        bias, source = source[0], None
    chosen, (blocks, threads, _), tiles = tile_scheduler(a, b, config)
    maps = []
    for matrix in (a, b.t(), result, source, kept):
        value = result if matrix is None else matrix
        maps.append(cuda.tensor_map(value.t() if boxes.is_transposed(value) else value, (64, 64)))
    parameters = chosen.parameters(a.dtype, boxes.is_transposed(a), boxes.is_transposed(b.t()))
    template = f"{parameters}, {activation_number(activation)}, {flags(source is not None, kept is not None, scaled)}"
    row = None if bias is None else aligned_pairs(bias)
    factors = (alpha, beta if beta is not None else 0.0) if scaled else (1.0, 1.0)
    WARPGROUPS[f"gemm_warpgroups<{template}>"][blocks, threads, shared_bytes(chosen)](
        *maps, row, scale, *factors, *problem.sizes, *tiles
    )
