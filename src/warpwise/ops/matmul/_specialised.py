"""The launcher of the kernel whose warps have roles, k13: which tile, and how each operand comes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops.matmul._shared import HERE, grid_of_tiles, sizes

WARP_SPECIALISED = cuda.load(HERE / "k13_warp_specialised.cu")
ENGINE, ALONG_EXTENT, ALONG_DEPTH = (f"warpwise::{name}" for name in ("kEngine", "kAlongExtent", "kAlongDepth"))
THREADS, STAGING = 384, 8 * 8 * 65 * 4  # four warps feed, eight multiply; bytes of sums on their way out


class Tiling(NamedTuple):
    """A block's tile of C, the depth of a slice, slices in flight, and the tile's time relative to the best a product."""

    rows: int
    columns: int
    depth: int
    stages: int
    price: float

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.columns}x{self.depth}_s{self.stages}"

    def clocks(self, m: int, n: int, k: int, blocks: int) -> float:
        """What the block with the most tiles takes: 128 multiply-adds a clock, and the start and end of each tile."""
        tiles = cdiv(cdiv(m, self.rows) * cdiv(n, self.columns), blocks)
        return tiles * (self.rows * self.columns * k / 128 * self.price + 5000)


TILINGS = (
    Tiling(128, 256, 8, 12, 1.0), Tiling(256, 128, 8, 12, 1.01), Tiling(128, 128, 16, 8, 1.04),
    Tiling(64, 128, 32, 8, 1.07), Tiling(128, 64, 32, 8, 1.08), Tiling(64, 64, 64, 5, 1.12),
)  # fmt: skip
_NAMED = {tiling.name: tiling for tiling in TILINGS}


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    if a.is_cuda and torch.cuda.get_device_capability(a.device) != (9, 0):
        return "takes a GPU of compute capability 9.0: its warps move registers and slices as Hopper alone does"
    return grid_of_tiles(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the one that should be done first in front."""
    m, n, k = sizes(a, b)
    blocks = multiprocessors(a)
    return tuple(tiling.name for tiling in sorted(TILINGS, key=lambda tiling: tiling.clocks(m, n, k, blocks)))


def feed(lines: torch.Tensor) -> tuple[str, int]:
    """How an operand comes, as (extent, depth) of any strides of which one is 1, and the distance of its lines in memory."""
    along_extent, along_depth = lines.stride()
    if along_depth == 1 and (along_extent != 1 or lines.size(0) == 1):
        return ALONG_DEPTH, along_extent
    boxes = along_depth % 4 == 0 and along_depth >= lines.size(0) and lines.data_ptr() % 16 == 0
    return ENGINE if boxes else ALONG_EXTENT, along_depth


def with_lines(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix itself, or a copy if its elements are neighbours along neither dimension."""
    return matrix if 1 in matrix.stride() else matrix.contiguous()


def warp_specialised(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    tiling = _NAMED[config or configs(a, b)[0]]
    m, n, k = sizes(a, b)
    a, b = with_lines(a), with_lines(b)
    (feed_a, a_stride), (feed_b, b_stride) = feed(a), feed(b.t())
    template = f"{tiling.rows}, {tiling.columns}, {tiling.depth}, {tiling.stages}"
    operands: tuple[Any, ...]
    if feed_b == ENGINE:
        boxes_b = cuda.tensor_map(b, (tiling.depth, tiling.columns), swizzle=0)
        if feed_a == ENGINE:
            kernel = f"matmul_boxes<{template}>"
            operands = cuda.tensor_map(a.t(), (tiling.depth, tiling.rows), swizzle=0), boxes_b
        else:
            kernel = f"matmul_words_and_boxes<{template}, {feed_a}>"
            operands = cuda.strided(a), a_stride, boxes_b
    else:
        feed_a = ALONG_EXTENT if feed_a == ENGINE else feed_a
        kernel = f"matmul_words<{template}, {feed_a}, {feed_b}>"
        operands = cuda.strided(a), a_stride, cuda.strided(b), b_stride
    rows, columns = cdiv(m, tiling.rows), cdiv(n, tiling.columns)
    padding = 4 * ((feed_a == ALONG_DEPTH) + (feed_b == ALONG_DEPTH))
    slices = tiling.stages * (tiling.depth * (tiling.rows + tiling.columns + padding) * 4 + 16)
    launch = WARP_SPECIALISED[kernel][min(rows * columns, multiprocessors(a)), THREADS, 128 + slices + STAGING]
    launch(*operands, cuda.out(c), m, n, k, rows, columns, max(1, 1024 // tiling.rows))
