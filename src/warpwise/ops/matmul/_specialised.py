"""The launcher of the kernel whose warps have roles, k13: which tile, and how each operand comes."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops.matmul._shared import HERE, grid_of_tiles, sizes

WARP_SPECIALISED = cuda.load(HERE / "k13_warp_specialised.cu")
ENGINE, ALONG_EXTENT, ALONG_DEPTH = (f"warpwise::{name}" for name in ("kEngine", "kAlongExtent", "kAlongDepth"))
THREADS, STAGING = 384, 8 * 8 * 80 * 4  # four warps feed, eight multiply; bytes of sums on their way out
MOST_PARTS = 64


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

    def config(self, parts: int) -> str:
        """The name of this tile where those that fill no round are divided in ``parts``."""
        return f"{self.name}_p{parts}" if parts > 1 else self.name

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """C in rows and columns of tiles."""
        return cdiv(m, self.rows), cdiv(n, self.columns)

    def clocks(self, m: int, n: int, k: int, blocks: int, boxes: bool, parts: int = 1) -> float:
        """What the busiest block takes: 128 multiply-adds a clock, the start and end of each piece, and adding parts."""
        rows, columns = self.tiles(m, n)
        size, divided = self.rows * self.columns, rows * columns % blocks if parts > 1 else 0
        a_depth = size / 128 * 1.2 * (self.boxes if boxes else self.words)
        ending = 4000 + size / 4
        clocks = cdiv(rows * columns - divided, blocks) * (a_depth * k + ending)
        if divided:
            clocks += cdiv(divided * parts, blocks) * (a_depth * cdiv(k, parts) + ending)
            clocks += 8000 + divided * parts * size / 125
        return clocks

    def shared(self, padding: int) -> int:
        """Bytes of shared memory: slices with ``padding`` more floats a step of depth, two barriers each, and staged sums."""
        return 128 + self.stages * (self.depth * (self.rows + self.columns + padding) * 4 + 16) + STAGING


TILINGS = (
    Tiling(128, 256, 8, 12, 1.0, 1.14), Tiling(128, 256, 16, 8, 1.015, 1.1), Tiling(256, 128, 8, 12, 1.02, 1.16),
    Tiling(128, 128, 16, 8, 1.01, 1.18), Tiling(64, 256, 16, 8, 1.015, 1.22), Tiling(64, 128, 32, 8, 1.02, 1.25),
    Tiling(128, 64, 32, 8, 1.09, 1.26), Tiling(32, 256, 32, 5, 1.015, 1.6), Tiling(32, 128, 64, 4, 1.11, 1.85),
    Tiling(64, 64, 64, 5, 1.21, 1.6),
)  # fmt: skip
_NAMED = {tiling.name: tiling for tiling in TILINGS}


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    return not_hopper(a, "its warps move registers and slices as Hopper alone does") or grid_of_tiles(a, b)


def pays(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether C, or its tiles in parts 1024 deep, has a piece of 64 x 128 for most SMs of a Hopper GPU."""
    m, n, k = sizes(a, b)
    pieces = cdiv(m, 64) * cdiv(n, 128) * max(1, k // 1024)
    return a.is_cuda and 4 * pieces >= 3 * multiprocessors(a) and not limits(a, b)


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, blocks: int, boxes: bool) -> tuple[str, ...]:
    found = []
    for tiling in TILINGS:
        most = max(1, min(MOST_PARTS, k // 256))
        clocks = {parts: tiling.clocks(m, n, k, blocks, boxes, parts) for parts in range(1, 1 + most)}
        found += [(clocks[parts], tiling.config(parts)) for parts in {1, min(clocks, key=clocks.__getitem__)}]
    return tuple(name for _, name in sorted(found))


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every tile, and divided where that should be faster, the one that should be done first in front."""
    return ranked(*sizes(a, b), multiprocessors(a), in_boxes(b))


def feed(lines: torch.Tensor) -> tuple[str, int]:
    """How an operand comes, as (extent, depth) of any strides of which one is 1, and the distance of its lines in memory."""
    along_extent, along_depth = lines.stride()
    if along_depth == 1 and (along_extent != 1 or lines.size(0) == 1):
        return ALONG_DEPTH, along_extent
    boxes = along_depth % 4 == 0 and along_depth >= lines.size(0) and lines.data_ptr() % 16 == 0
    return ENGINE if boxes else ALONG_EXTENT, along_depth


def in_boxes(b: torch.Tensor) -> bool:
    """Whether the copy engine brings b, or the copy that ``with_lines`` makes of it."""
    return feed(b.t())[0] == ENGINE if 1 in b.stride() else b.shape[1] % 4 == 0


def with_lines(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix itself, or a copy if its elements are neighbours along neither dimension."""
    return matrix if 1 in matrix.stride() else matrix.contiguous()


def warp_specialised(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    name, _, parts = (config or configs(a, b)[0]).partition("_p")
    tiling = _NAMED[name]
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
    rows, columns = tiling.tiles(m, n)
    shared = tiling.shared(4 * ((feed_a == ALONG_DEPTH) + (feed_b == ALONG_DEPTH)))
    processors, count = multiprocessors(a), min(int(parts or 1), cdiv(k, tiling.depth))
    divided = rows * columns % processors if count > 1 else 0
    whole = rows * columns - divided
    order = rows, columns, max(1, 1024 // tiling.rows)
    sums = c.new_empty(divided * count * tiling.rows * tiling.columns) if divided else None
    WARP_SPECIALISED[kernel][min(whole + divided * count, processors), THREADS, shared](
        *operands, c if divided else cuda.out(c), m, n, k, *order, sums, whole, count
    )
    if divided:
        neighbours = 4 if n % 4 == 0 else 1
        items = divided * tiling.rows * tiling.columns // neighbours
        groups = next((few for few in (1, 2, 4) if few * items >= 1024 * processors or 2 * few > count), 8)
        add = WARP_SPECIALISED[f"add_parts<{tiling.rows}, {tiling.columns}, {neighbours}>"]
        add[items * groups // 256, 256](sums, c, m, n, *order, whole, count, groups)
