"""The launcher of k05, for ``warpwise/sm90/gemm_epilogue.cuh``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.fused import activation_number
from warpwise.gemm.operands import flags
from warpwise.gemm.persistent import tile_scheduler

WARPGROUPS = cuda.load(Path(__file__).with_suffix(".cu"))


class EpilogueLaunch(NamedTuple):
    """Tensor maps of a, b, y, the source and the auxiliary output; template arguments; the launch."""

    maps: tuple[Any, ...]
    parameters: str
    launch: tuple[int, int, int]  # blocks, threads, bytes of shared memory
    tiles: tuple[int, int, int]  # rows and columns of cluster tiles, and tile rows of a raster group


def shared_bytes(config: GemmConfig) -> int:
    """Bytes of shared memory: the main loop's, and for each warpgroup a bias, row scales and barriers."""
    width = config.n // config.groups[1]
    return config.shared + config.warpgroups * (width * 2 + 64 * 4 + 2 * 8)


def aligned_pairs(vector: torch.Tensor) -> torch.Tensor:
    """``vector``, or a copy if it is not aligned to 4 bytes: the kernel loads two 2-byte elements at a time."""
    return vector.clone() if vector.data_ptr() % 4 else vector


def epilogue_launch(
    a: torch.Tensor,
    b: torch.Tensor,
    y: torch.Tensor,
    source: torch.Tensor | None,
    auxiliary: torch.Tensor | None,
    config: str | None,
) -> EpilogueLaunch:
    """The launch of y (M, N) = epilogue(a (M, K) times the transpose of b (N, K)).

    The epilogue reads ``source`` and writes ``auxiliary``, both (M, N) or None.
    """
    chosen, (blocks, threads, _), tiles = tile_scheduler(a, b.t(), config)

    def tensor_map(matrix: torch.Tensor | None) -> Any:
        value = y if matrix is None else matrix
        return cuda.tensor_map(value.t() if boxes.transposed(value) else value, (64, 64))

    return EpilogueLaunch(
        tuple(tensor_map(matrix) for matrix in (a, b, y, source, auxiliary)),
        chosen.parameters(a.dtype, boxes.transposed(a), boxes.transposed(b)),
        (blocks, threads, shared_bytes(chosen)),
        tiles,
    )


def launch(problem: Any, config: str | None) -> None:
    """A source of one row is added as a bias."""
    a, b, result, kept, bias, scale, activation, source, alpha, beta = problem
    scaled = alpha is not None
    if source is not None and scaled and (source.stride(0) == 0 or source.shape[0] == 1):
        bias, source = source[0], None
    plan = epilogue_launch(a, b.t(), result, source, kept, config)
    template = f"{activation_number(activation)}, {flags(source is not None, kept is not None, scaled)}"
    kernel = WARPGROUPS[f"gemm_warpgroups<{plan.parameters}, {template}>"]
    row = None if bias is None else aligned_pairs(bias)
    factors = (alpha, beta if beta is not None else 0.0) if scaled else (1.0, 1.0)
    kernel[plan.launch](*plan.maps, row, scale, *factors, *problem.sizes, *plan.tiles)
