"""The launcher of k02."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import boxes
from warpwise.operation import cdiv, sm_count
from warpwise.ops.batched_matmul._shared import strides
from warpwise.ops.batched_matmul.spec import sizes

BLOCK_TILE = cuda.load(Path(__file__).with_suffix(".cu"))

LARGE = 128  # the side of the large tile


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    batch, m, n, k = sizes(a, b)
    large = m > LARGE // 2 and n > LARGE // 2 and batch * cdiv(m, LARGE) * cdiv(n, LARGE) >= sm_count(a)
    side = LARGE if large else LARGE // 2
    flags = boxes.transposed(a), boxes.transposed(b), vectorisable(a), vectorisable(b), vectorisable(c)
    arguments = ", ".join([cuda.ctype(a.dtype), str(2 if large else 1), *(str(flag).lower() for flag in flags)])
    tiles_n = cdiv(n, side)
    tiles = cdiv(m, side) * tiles_n
    BLOCK_TILE[f"batched_matmul_block_tile<{arguments}>"][batch * tiles, 256](
        cuda.strided(a), cuda.strided(b), cuda.out(c), m, n, k, tiles, tiles_n, *strides(a), *strides(b)
    )


def vectorisable(operand: torch.Tensor) -> bool:
    """True if the contiguous dimension of every matrix can be read in aligned vectors of four elements."""
    matrix, across, along = strides(operand)
    length = operand.shape[-1]
    if boxes.transposed(operand):
        across, along, length = along, across, operand.shape[-2]
    aligned = operand.data_ptr() % (4 * operand.element_size()) == 0
    return aligned and along == 1 and not (length % 4 or across % 4 or matrix % 4)
