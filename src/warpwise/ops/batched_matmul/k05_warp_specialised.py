"""The launcher of k05, its limits and configurations, and how each operand is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm.limits import requires_hopper, requires_k
from warpwise.operation import cdiv, sm_count
from warpwise.ops.batched_matmul._shared import tiles_limit
from warpwise.ops.batched_matmul.spec import sizes

WARP_SPECIALISED = cuda.load(Path(__file__).with_suffix(".cu"))

TMA, MN_MAJOR, K_MAJOR = (f"warpwise::{name}" for name in ("kTma", "kMnMajor", "kKMajor"))
THREADS, STAGING = 256, 4 * 8 * 80 * 4  # four producer warps, four consumers; bytes of staged sums


class SimtConfig(NamedTuple):
    """A block's tile of C, the k of a stage, pipeline stages, and a multiply-add's time relative to the best tile's."""

    rows: int
    columns: int
    depth: int
    stages: int
    slower: float

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.columns}x{self.depth}_s{self.stages}"

    def clocks(self, batch: int, m: int, n: int, k: int, processors: int) -> float:
        """An estimate of the busiest SM's clocks: 128 multiply-adds per clock, prologue and epilogue."""
        tiles = cdiv(batch * cdiv(m, self.rows) * cdiv(n, self.columns), processors)
        return tiles * (self.rows * self.columns * k / 128 * self.slower + 1000)

    @property
    def shared(self) -> int:
        """Bytes of shared memory: alignment, stages with 8 floats of padding for each k, barriers, staged sums."""
        return 128 + self.stages * (self.depth * (self.rows + self.columns + 8) * 4 + 16) + STAGING


CONFIGS = (
    SimtConfig(128, 128, 8, 12, 1.0),
    SimtConfig(128, 128, 16, 6, 1.0),
    SimtConfig(256, 64, 8, 9, 1.02),
    SimtConfig(64, 256, 8, 9, 1.02),
    SimtConfig(128, 64, 16, 8, 1.04),
    SimtConfig(64, 128, 16, 8, 1.04),
    SimtConfig(64, 64, 32, 5, 1.1),
)
_NAMED = {chosen.name: chosen for chosen in CONFIGS}


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    chosen = _NAMED[config or configs(a, b)[0]]
    batch, m, n, k = sizes(a, b)
    first, second = operand(a), operand(b.mT)
    template = f"{chosen.rows}, {chosen.columns}, {chosen.depth}, {chosen.stages}"
    if second.load == TMA:
        boxes_b = second.boxes(chosen.depth, chosen.columns), int(second.matrix > 0)
        if first.load == TMA:
            kernel = f"batched_matmul_tma<{template}>"
            operands: tuple[Any, ...] = first.boxes(chosen.depth, chosen.rows), int(first.matrix > 0), *boxes_b
        else:
            kernel = f"batched_matmul_tma_b<{template}, {first.load}>"
            operands = cuda.strided(first.lines), first.stride, first.matrix, *boxes_b
    else:
        load_a = MN_MAJOR if first.load == TMA else first.load
        kernel = f"batched_matmul_cp_async<{template}, {load_a}, {second.load}>"
        operands = (
            cuda.strided(first.lines),
            first.stride,
            first.matrix,
            cuda.strided(second.lines),
            second.stride,
            second.matrix,
        )
    rows, columns = cdiv(m, chosen.rows), cdiv(n, chosen.columns)
    blocks = min(batch * rows * columns, 2 * sm_count(a))
    WARP_SPECIALISED[kernel][blocks, THREADS, chosen.shared](
        *operands, cuda.out(c), batch, m, n, k, rows, columns, max(1, 1024 // chosen.rows)
    )


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A Hopper GPU, and a grid of tiles."""
    reason = requires_hopper(a, "setmaxnreg and TMA exist there alone") or requires_k(a.shape[-1])
    return reason or tiles_limit(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every configuration, the fastest by ``clocks`` first."""
    size, processors = sizes(a, b), sm_count(a)
    return tuple(chosen.name for chosen in sorted(CONFIGS, key=lambda chosen: chosen.clocks(*size, processors)))


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
