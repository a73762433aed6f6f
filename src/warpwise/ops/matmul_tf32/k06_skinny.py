"""The launcher of k06, its configurations, and a model of their time: K is divided to fill the GPU."""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm.config import config_numbers
from warpwise.gemm.limits import HOPPER_SHARED
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matmul_tf32._shared import aligned_copy, aligned_rows, k_major
from warpwise.ops.matmul_tf32.k05_transposed_in_registers import CONFIGS as TRANSPOSED_CONFIGS

SKINNY = cuda.load(Path(__file__).with_suffix(".cu"))
PERMUTE_K = cuda.load(Path(__file__).parent / "permute_k.cu")

WIDTHS = (8, 16, 32, 64, 128, 256)  # rows of A: wgmma's n
DEPTH = 32  # of a stage: 128 bytes, a swizzled row
START = 8600  # clocks of a kernel without products
FORM = re.compile(rf"(\d+)x(\d+)x{DEPTH}_s(\d+)_k(\d+)_o(\d+)")


class Layout(NamedTuple):
    """Layout of B. ``k_major``: column-major. ``shifted``: its rows or columns are not 16-byte aligned."""

    k_major: bool
    shifted: bool


class SkinnyConfig(NamedTuple):
    """A tile of ``columns`` of B x ``rows`` of A, and pipeline stages.

    ``split`` blocks of a cluster divide K; ``outer`` clusters divide it once more and reduce through global memory.
    """

    columns: int
    rows: int
    stages: int
    split: int = 1
    outer: int = 1

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows}x{DEPTH}_s{self.stages}_k{self.split}_o{self.outer}"

    @classmethod
    def named(cls, name: str) -> SkinnyConfig:
        return cls(*config_numbers("matmul_tf32", name, FORM))

    def kernel(self, layout: Layout) -> str:
        rest = f"{self.columns // 64}, {self.rows}, {self.stages}, {self.split}"
        return f"matmul_skinny{'_shifted' if layout.shifted else ''}<{str(layout.k_major).lower()}, {rest}>"

    def shared_bytes(self, layout: Layout) -> int:
        """Dynamic shared memory: operands of a stage begin on 1 KiB; shifted rows of B are four words longer."""
        longer = 4 * (self.columns if layout.k_major else DEPTH) if layout.shifted else 0
        of_b = cdiv((self.columns * DEPTH + longer) * 4, 1024) * 1024
        return 1024 + self.stages * (of_b + self.rows * DEPTH * 4)

    def threads(self, layout: Layout) -> int:
        """Consumers, and a producer warp, or a warpgroup where it deallocates registers (setmaxnreg)."""
        moves = self.columns == 128 and self.rows == 256 and layout != Layout(True, False)
        return 2 * self.columns + (128 if moves else 32)

    def clocks(self, m: int, n: int, k: int, processors: int) -> float:
        """An estimate of SM clocks: waves of blocks, each bound by DRAM, L2, the SM's ingress or wgmma.

        On an H200 DRAM delivers 2700 bytes per clock, 23 to an SM; L2 5200, counting half of A, whose lines neighbours
        load at once; an SM receives 80. wgmma takes 2 clocks a row of A for 64 columns of a stage. A ninth of what is
        not the bottleneck is not hidden. A wave takes 8600 clocks to start and end, and its sums pass through shared
        memory at 16 bytes per clock; partial sums in global memory take one launch more. Fitted to 500 times of 18
        shapes.
        """
        tiles_m, tiles_n = max(1, cdiv(m, self.rows)), max(1, cdiv(n, self.columns))
        blocks = tiles_m * tiles_n * self.split * self.outer
        an_sm = min(128 // self.columns, HOPPER_SHARED // (self.shared_bytes(Layout(False, False)) + 1024))
        slots = processors * an_sm
        waves = cdiv(blocks, slots if self.split < 4 else slots * 10 // 11)  # 30 clusters of 4 are at once on 132 SMs
        at_once = cdiv(blocks, waves)  # waves end one by one, not together
        busy = cdiv(at_once, processors)
        of_stage = (
            at_once * 128 * (self.columns / tiles_m + self.rows / tiles_n) / min(2700, 23 * min(at_once, processors)),
            at_once * 128 * (self.columns + self.rows / 2) / 5200,
            busy * (self.columns + self.rows) * 128 / 80,
            busy * self.columns * self.rows / 32,
        )
        slowest, k_tiles = max(of_stage), cdiv(cdiv(k, DEPTH), self.split * self.outer)
        loop = k_tiles * (slowest + (sum(of_stage) - slowest) / 9)
        reduction = 4000 + self.outer * m * n * 8 / 4400 if self.outer > 1 else 0
        return waves * (START + loop + self.columns * self.rows * self.split / 4) + reduction


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tiles = SkinnyConfig.named(config) if config else ranked(m, n, k, sm_count(a))[0]
    lines, layout = b_operand(b)
    tiles_m, clusters = cdiv(m, tiles.rows), cdiv(n, tiles.columns) * tiles.outer
    rows = permute_k(a) if layout == Layout(False, True) else k_major(a)
    map_of_a = cuda.tensor_map(rows, (tiles.rows, DEPTH), tf32=True)
    partials = c if tiles.outer == 1 else c.new_empty((tiles.outer, m, n))
    grid = clusters * tiles_m * tiles.split, tiles.threads(layout), tiles.shared_bytes(layout)
    kernel, geometry = SKINNY[tiles.kernel(layout)][grid], (cuda.out(partials), m, n, k, tiles_m, tiles.outer)
    if layout.shifted:
        box = (tiles.columns // 4, DEPTH + 4) if layout.k_major else (DEPTH // 4, tiles.columns + 4)
        maps = every_fourth(lines, box)
        kernel(map_of_a, *maps, lines.storage_offset() % 4, lines.stride(0) % 4, *geometry)
    else:
        box = (tiles.columns if layout.k_major else DEPTH, DEPTH)
        kernel(map_of_a, cuda.tensor_map(lines, box, tf32=True), *geometry)
    if partials is not c:
        SKINNY["warpwise::reduce_partials<float>"][cdiv(m * n, 128), 256](partials, cuda.out(c), m * n, tiles.outer)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """The eight fastest by ``clocks``."""
    return tuple(map(str, ranked(*sizes(a, b), sm_count(a))[:8]))


def is_profitable(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if k06 is estimated to be faster than k05: up to 256 rows, bound by DRAM, always."""
    m, n, k = sizes(a, b)
    processors = sm_count(a)
    first, second = (m, n) if b.stride(0) == 1 else (n, m)
    other = min(tile.clocks(first, second, k, processors) for tile in TRANSPOSED_CONFIGS)
    in_place = a.stride(1) != 1 and b.stride(0) == 1  # k05 takes such an A in place
    transposing = 4400 + 8 * m * k / 1600 if in_place else 0
    return m <= 256 or ranked(m, n, k, processors)[0].clocks(m, n, k, processors) + transposing < START + other


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, processors: int) -> tuple[SkinnyConfig, ...]:
    """The candidates, the fastest by ``clocks`` first."""
    return tuple(sorted(candidates(m, n, k, processors), key=lambda tiles: tiles.clocks(m, n, k, processors)))


def candidates(m: int, n: int, k: int, processors: int) -> list[SkinnyConfig]:
    """Tiles that hold all rows of A, or fewer of many, with K whole, halved, or divided to fill the GPU."""
    widest = next((width for width in WIDTHS if width >= m), WIDTHS[-1])
    tiles_128 = cdiv(m, 128) * cdiv(n, 64)
    narrow = tiles_128 < processors if m > 128 else 4 * tiles_128 < processors  # else tiles of all rows, or of 128
    least = min(widest, max(32, widest // 8) if narrow else 128)
    found = []
    for rows in (width for width in WIDTHS if least <= width <= widest):
        for columns, split, an_sm in itertools.product((64, 128), (1, 2, 4), (1, 2)):
            stages = stages_of(columns, rows, an_sm)
            tiles = max(1, cdiv(m, rows) * cdiv(n, columns))
            for outer in (1, an_sm * processors // (split * tiles)):
                whole = rows * (columns + 4) <= stages * (rows + columns) * DEPTH  # sums reuse the stages' memory
                deep = split * outer == 1 or k >= 2 * DEPTH * split * outer
                if stages >= 3 and whole and deep and outer >= 1 and (an_sm == 1 or columns == 64):
                    found.append(SkinnyConfig(columns, rows, stages, split, outer))
    return list(dict.fromkeys(found))


def stages_of(columns: int, rows: int, an_sm: int) -> int:
    """Pipeline stages of ``an_sm`` blocks per SM. 64 KB of B in flight are enough, 80 with 128 columns or two blocks;
    with more, blocks drift apart along K."""
    enough = 5 if columns == 128 or an_sm == 2 else 8 if rows < 128 else 6
    return min(
        enough, (HOPPER_SHARED // an_sm - 2048) // (cdiv((columns + 4) * DEPTH * 4, 1024) * 1024 + rows * DEPTH * 4)
    )


def b_operand(b: torch.Tensor) -> tuple[torch.Tensor, Layout]:
    """B's rows or columns, as rows, and its layout: in place if TMA can load them, else a copy.

    Shifted ones, which begin between multiples of 16 bytes, can be loaded in place if there are four or more.
    """
    for by_columns, lines in ((True, b.t()), (False, b)):
        if aligned_rows(lines):
            return lines, Layout(by_columns, False)
    storage = b.data_ptr() - b.storage_offset() * 4
    for by_columns, lines in ((True, b.t()), (False, b)):
        if lines.stride(1) == 1 and lines.stride(0) >= lines.shape[1] and lines.shape[0] >= 4 and storage % 16 == 0:
            return lines, Layout(by_columns, True)
    return aligned_copy(b), Layout(False, False)


def every_fourth(lines: torch.Tensor, box: tuple[int, int]) -> list[cuda.TensorMap]:
    """Tensor maps of rows 4 j + i for i = 0 to 3: each begins at the multiple of 16 bytes below its first row."""
    count, length, pitch = int(lines.shape[0]), int(lines.shape[1]), int(lines.stride(0))
    maps = []
    for first in range(4):
        begin = int(lines.storage_offset()) + first * pitch
        layout = (cdiv(count - first, 4), length + begin % 4), (4 * pitch, 1)
        fourth = lines.as_strided((1, 1), (1, 1), begin - begin % 4)
        maps.append(cuda.tensor_map(fourth, box, swizzle=0, tf32=True, layout=layout))
    return maps


def permute_k(a: torch.Tensor) -> torch.Tensor:
    """A with each 32 columns permuted to the order in which k06 multiplies shifted rows of B."""
    m, k = a.shape
    result = a.new_empty((m, cdiv(k, DEPTH) * DEPTH))
    PERMUTE_K["permute_k"][cdiv(result.numel(), 256), 256](cuda.strided(a), *a.stride(), cuda.out(result), m, k)
    return result
