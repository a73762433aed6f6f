"""The launcher of k05, its limits and configurations, and how each operand is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm.config import GemmConfig, chosen, names, parsed
from warpwise.gemm.estimate import SIMT_TMA, ordered
from warpwise.gemm.limits import requires_hopper, requires_k
from warpwise.operation import sm_count
from warpwise.ops.batched_matmul._shared import tiles_limit
from warpwise.ops.batched_matmul.spec import sizes

WARP_SPECIALISED = cuda.load(Path(__file__).with_suffix(".cu"))

TMA, MN_MAJOR, K_MAJOR = (f"warpwise::{name}" for name in ("kTma", "kMnMajor", "kKMajor"))
THREADS, STAGING = 256, 4 * 8 * 80 * 4  # four producer warps, four consumers; bytes of staged sums


CONFIGS = parsed(
    "128x128x8_s12", "128x128x16_s6", "256x64x8_s9", "64x256x8_s9", "128x64x16_s8", "64x128x16_s8", "64x64x32_s5"
)


def shared_bytes(config: GemmConfig) -> int:
    """Bytes of shared memory: stages with 8 floats of padding for each k, barriers, staged sums."""
    return config.ring_bytes(4, alignment=128, padding=8) + STAGING


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    tile = chosen("batched_matmul", config or configs(a, b)[0], CONFIGS)
    batch, m, n, k = sizes(a, b)
    first, second = operand(a), operand(b.mT)
    template = f"{tile.m}, {tile.n}, {tile.k}, {tile.stages}"
    if second.load == TMA:
        boxes_b = second.boxes(tile.k, tile.n), int(second.matrix > 0)
        if first.load == TMA:
            kernel = f"batched_matmul_tma<{template}>"
            operands: tuple[Any, ...] = first.boxes(tile.k, tile.m), int(first.matrix > 0), *boxes_b
        else:
            kernel = f"batched_matmul_tma_b<{template}, {first.load}>"
            operands = cuda.strided(first.lines), first.stride, first.matrix, *boxes_b
    else:
        load_a = MN_MAJOR if first.load == TMA else first.load
        kernel = f"batched_matmul_cp_async<{template}, {load_a}, {second.load}>"
        operands = cuda.strided(first.lines), first.stride, first.matrix, cuda.strided(second.lines), *second[2:]
    rows, columns = tile.tiles(m, n)
    blocks = min(batch * rows * columns, 2 * sm_count(a))
    WARP_SPECIALISED[kernel][blocks, THREADS, shared_bytes(tile)](
        *operands, cuda.out(c), batch, m, n, k, rows, columns, max(1, 1024 // tile.m)
    )


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A Hopper GPU, and a grid of tiles."""
    reason = requires_hopper(a, "setmaxnreg and TMA exist there alone") or requires_k(a.shape[-1])
    return reason or tiles_limit(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every configuration."""
    batch, m, n, k = sizes(a, b)
    return names(ordered(CONFIGS, SIMT_TMA._replace(blocks=2), m, n, k, sm_count(a), batch))


class Operand(NamedTuple):
    """An operand (matrices, extent, K), one matrix where all products share it: how it is loaded, and the strides of
    its rows and of its matrices."""

    lines: torch.Tensor
    load: str
    stride: int
    matrix: int

    def boxes(self, depth: int, extent: int) -> Any:
        """The tensor map of (matrices, K, extent), in boxes of one matrix."""
        count, extent_of_one, k = self.lines.shape
        strides = self.matrix or self.stride, self.stride, 1
        return cuda.tensor_map(self.lines.as_strided((count, k, extent_of_one), strides), (1, depth, extent), swizzle=0)


def operand(matrices: torch.Tensor) -> Operand:
    """``matrices`` (matrices, extent, K) or (extent, K), any strides; copied if neither extent nor K is contiguous."""
    lines = matrices if matrices.dim() == 3 else matrices[None]
    if lines.shape[0] == 1 or lines.stride(0) == 0:
        lines = lines[:1]
    if 1 not in lines.stride()[1:]:
        lines = lines.contiguous()
    matrix, along_extent, along_depth = lines.stride()
    matrix = matrix if lines.shape[0] > 1 else 0
    extent = lines.shape[1]
    if along_depth == 1 and (along_extent != 1 or extent == 1):
        return Operand(lines, K_MAJOR, along_extent, matrix)
    boxes = along_depth % 4 == 0 and along_depth >= extent and lines.data_ptr() % 16 == 0 and matrix % 4 == 0
    return Operand(lines, TMA if boxes else MN_MAJOR, along_depth, matrix)
