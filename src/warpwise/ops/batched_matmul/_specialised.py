"""The launcher of the float32 kernel whose warps have roles, k05: which tile, and how each factor comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops.batched_matmul.spec import sizes

WARP_SPECIALISED = cuda.load(Path(__file__).parent / "k05_warp_specialised.cu")
ENGINE, ALONG_EXTENT, ALONG_DEPTH = (f"warpwise::{name}" for name in ("kEngine", "kAlongExtent", "kAlongDepth"))
THREADS, STAGING = 256, 4 * 8 * 80 * 4  # four warps feed, four multiply; bytes of sums on their way out
ROOM = 113 * 1024  # bytes of shared memory for one of two blocks of an SM


class Tiling(NamedTuple):
    """A block's tile of C, the depth of a slice, slices in flight, and the time of a product relative to the best tile's."""

    rows: int
    columns: int
    depth: int
    stages: int
    slower: float

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.columns}x{self.depth}_s{self.stages}"

    def clocks(self, batch: int, m: int, n: int, k: int, processors: int) -> float:
        """What the SM with the most tiles takes: 128 multiply-adds a clock, and the start and end of each tile."""
        tiles = cdiv(batch * cdiv(m, self.rows) * cdiv(n, self.columns), processors)
        return tiles * (self.rows * self.columns * k / 128 * self.slower + 1000)

    @property
    def shared(self) -> int:
        """Bytes of shared memory: to align, slices with eight more floats a step of depth, two barriers each, staged sums."""
        return 128 + self.stages * (self.depth * (self.rows + self.columns + 8) * 4 + 16) + STAGING


TILINGS = (
    Tiling(128, 128, 8, 12, 1.0), Tiling(128, 128, 16, 6, 1.0), Tiling(256, 64, 8, 9, 1.02), Tiling(64, 256, 8, 9, 1.02),
    Tiling(128, 64, 16, 8, 1.04), Tiling(64, 128, 16, 8, 1.04), Tiling(64, 64, 32, 5, 1.1),
)  # fmt: skip
_NAMED = {tiling.name: tiling for tiling in TILINGS}


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the one that should be done first in front."""
    size, processors = sizes(a, b), multiprocessors(a)
    return tuple(tiling.name for tiling in sorted(TILINGS, key=lambda tiling: tiling.clocks(*size, processors)))


def limits(a: torch.Tensor) -> str | None:
    return not_hopper(a, "its warps move registers and slices as Hopper alone does")


class Factor(NamedTuple):
    """A factor as (matrices, extent, depth), one matrix where all products share it: how it comes, and the distances of its
    lines and of its matrices in memory."""

    lines: torch.Tensor
    feed: str
    stride: int
    matrix: int

    def boxes(self, depth: int, extent: int) -> Any:
        """What the copy engine is told: (matrices, depth, extent) in boxes of one matrix."""
        count, along, across = self.lines.shape
        strides = self.matrix or self.stride, self.stride, 1
        return cuda.tensor_map(self.lines.as_strided((count, across, along), strides), (1, depth, extent), swizzle=0)


def factor(matrices: torch.Tensor) -> Factor:
    """``matrices`` (matrices, extent, depth) or (extent, depth) of any strides; copied if its elements are neighbours along neither."""
    lines = matrices if matrices.dim() == 3 else matrices[None]
    if lines.shape[0] == 1 or lines.stride(0) == 0:
        lines = lines[:1]
    if 1 not in lines.stride()[1:]:
        lines = lines.contiguous()
    matrix, along_extent, along_depth = lines.stride()
    matrix = matrix if lines.shape[0] > 1 else 0
    extent = lines.shape[1]
    if along_depth == 1 and (along_extent != 1 or extent == 1):
        return Factor(lines, ALONG_DEPTH, along_extent, matrix)
    boxes = along_depth % 4 == 0 and along_depth >= extent and lines.data_ptr() % 16 == 0 and matrix % 4 == 0
    return Factor(lines, ENGINE if boxes else ALONG_EXTENT, along_depth, matrix)


def warp_specialised(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    tiling = _NAMED[config or configs(a, b)[0]]
    batch, m, n, k = sizes(a, b)
    first, second = factor(a), factor(b.mT)
    template = f"{tiling.rows}, {tiling.columns}, {tiling.depth}, {tiling.stages}"
    if second.feed == ENGINE:
        boxes_b = second.boxes(tiling.depth, tiling.columns), int(second.matrix > 0)
        if first.feed == ENGINE:
            kernel = f"batched_matmul_boxes<{template}>"
            operands: tuple[Any, ...] = first.boxes(tiling.depth, tiling.rows), int(first.matrix > 0), *boxes_b
        else:
            kernel = f"batched_matmul_words_and_boxes<{template}, {first.feed}>"
            operands = cuda.strided(first.lines), first.stride, first.matrix, *boxes_b
    else:
        feed_a = ALONG_EXTENT if first.feed == ENGINE else first.feed
        kernel = f"batched_matmul_words<{template}, {feed_a}, {second.feed}>"
        operands = (
            cuda.strided(first.lines), first.stride, first.matrix, cuda.strided(second.lines), second.stride, second.matrix,
        )  # fmt: skip
    rows, columns = cdiv(m, tiling.rows), cdiv(n, tiling.columns)
    blocks = min(batch * rows * columns, 2 * multiprocessors(a))
    WARP_SPECIALISED[kernel][blocks, THREADS, tiling.shared](
        *operands, cuda.out(c), batch, m, n, k, rows, columns, max(1, 1024 // tiling.rows)
    )
