"""The launcher of k02, its limits and configurations."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import simt
from warpwise.gemm.boxes import one_matrix
from warpwise.gemm.config import GemmConfig, parsed
from warpwise.gemm.operands import Shape
from warpwise.operation import sm_count
from warpwise.ops.batched_matmul._tables import FAMILIES

WARP_SPECIALISED = cuda.load(Path(__file__).with_suffix(".cu"))

THREADS, STAGING = 256, 4 * 8 * 80 * 4  # four producer warps, four consumers; bytes of staged sums
CONFIGS = parsed(
    "128x128x8_s12", "128x128x16_s6", "256x64x8_s9", "64x256x8_s9", "128x64x16_s8", "64x128x16_s8", "64x64x32_s5"
)


def shared_bytes(config: GemmConfig) -> int:
    """Bytes of shared memory: stages with 8 floats of padding for each k, barriers, staged sums."""
    return config.ring_bytes(4, alignment=128, padding=8) + STAGING


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or configs(a, b)[0])
    batch, m, n, k = Shape.of(a, b)
    kernel, operands = simt.kernel("batched_matmul", tile, operand(a), operand(b.mT))
    rows, columns = tile.tiles(m, n)
    blocks = min(batch * rows * columns, 2 * sm_count(a))
    WARP_SPECIALISED[kernel][blocks, THREADS, shared_bytes(tile)](
        *operands, cuda.out(c), batch, m, n, k, rows, columns, max(1, 1024 // tile.m)
    )


configs = FAMILIES["k02_warp_specialised"].configs(lambda product: CONFIGS)


def operand(matrices: torch.Tensor) -> simt.Operand:
    """``matrices`` (matrices, extent, K) or (extent, K), any strides; copied if neither extent nor K is contiguous.

    An operand that all products share is one matrix.
    """
    lines = one_matrix(matrices)
    if 1 not in lines.stride()[1:]:
        lines = lines.contiguous()
    return simt.operand(lines, lines.stride(0) if lines.shape[0] > 1 else 0)
