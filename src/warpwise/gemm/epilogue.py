"""Launches of Hopper's GEMM kernels with a fused epilogue (``warpwise/sm90/gemm_epilogue.cuh``)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.persistent import tile_scheduler


class EpilogueLaunch(NamedTuple):
    """Tensor maps of a, b, y, the source and the auxiliary output; template arguments; the launch."""

    maps: tuple[Any, ...]
    parameters: str
    launch: tuple[int, int, int]  # blocks, threads, bytes of shared memory
    tiles: tuple[int, int, int]  # rows and columns of cluster tiles, and rows that are rasterised together


def shared_bytes(config: GemmConfig) -> int:
    """Bytes of shared memory: the main loop's, and for each warpgroup a bias, row scales and barriers."""
    width = config.n // config.groups[1]
    return config.shared + config.warpgroups * (width * 2 + 64 * 4 + 2 * 8)


def aligned_pairs(vector: torch.Tensor) -> torch.Tensor:
    """``vector``, or a copy if it is not 4-byte aligned, for loads of two 2-byte elements."""
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
