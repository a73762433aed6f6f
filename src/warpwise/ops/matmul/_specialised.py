"""The launcher of the kernel whose warps have roles, k13: which tile, and how each operand comes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops.matmul._shared import HERE, grid_of_tiles, sizes

WARP_SPECIALISED = cuda.load(HERE / "k13_warp_specialised.cu")
ENGINE, ALONG_EXTENT, ALONG_DEPTH = (f"warpwise::{name}" for name in ("kEngine", "kAlongExtent", "kAlongDepth"))
THREADS, STAGING = 384, 8 * 8 * 65 * 4  # four warps feed, eight multiply; bytes of sums on their way out


class Tiling(NamedTuple):
    """A block's tile of C, the depth of a slice, slices in flight, and the time of a product relative to the best tile's,
    where the copy engine brings B and where words are copied."""

    rows: int
    columns: int
    depth: int
    stages: int
    boxes: float
    words: float

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.columns}x{self.depth}_s{self.stages}"

    def clocks(self, m: int, n: int, k: int, blocks: int, boxes: bool) -> float:
        """What the block with the most tiles takes: 128 multiply-adds a clock, and the start and end of each tile."""
        tiles = cdiv(cdiv(m, self.rows) * cdiv(n, self.columns), blocks)
        return tiles * (self.rows * self.columns * k / 128 * (self.boxes if boxes else self.words) + 5000)

    def shared(self, padding: int) -> int:
        """Bytes of shared memory: slices with ``padding`` more floats a step of depth, two barriers each, and staged sums."""
        return 128 + self.stages * (self.depth * (self.rows + self.columns + padding) * 4 + 16) + STAGING


TILINGS = (
    Tiling(128, 256, 8, 12, 1.0, 1.04), Tiling(128, 256, 16, 8, 1.03, 1.0), Tiling(256, 128, 8, 12, 1.04, 1.04),
    Tiling(128, 128, 16, 8, 1.02, 1.06), Tiling(64, 128, 32, 8, 1.07, 1.07), Tiling(128, 64, 32, 8, 1.08, 1.08),
    Tiling(64, 64, 64, 5, 1.12, 1.12),
)  # fmt: skip
_NAMED = {tiling.name: tiling for tiling in TILINGS}


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    return not_hopper(a, "its warps move registers and slices as Hopper alone does") or grid_of_tiles(a, b)


def pays(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether C has small tiles for most SMs of a Hopper GPU, where it was measured to be worth its start."""
    m, n, _ = sizes(a, b)
    return a.is_cuda and 4 * cdiv(m, 64) * cdiv(n, 128) >= 3 * multiprocessors(a) and not limits(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the one that should be done first in front."""
    m, n, k = sizes(a, b)
    blocks, boxes = multiprocessors(a), n % 4 == 0 if 1 not in b.stride() else feed(b.t())[0] == ENGINE
    return tuple(tiling.name for tiling in sorted(TILINGS, key=lambda tiling: tiling.clocks(m, n, k, blocks, boxes)))


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
    shared = tiling.shared(4 * ((feed_a == ALONG_DEPTH) + (feed_b == ALONG_DEPTH)))
    blocks = min(rows * columns, multiprocessors(a))
    WARP_SPECIALISED[kernel][blocks, THREADS, shared](
        *operands, cuda.out(c), m, n, k, rows, columns, max(1, 1024 // tiling.rows)
    )
