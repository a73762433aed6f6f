"""The launcher of k06: few rows or few tiles, where what fills the GPU is a division of K."""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops.matmul._shared import sizes
from warpwise.ops.matmul._skinny import numbers
from warpwise.ops.matmul._tiles import ROOM
from warpwise.ops.matmul_tf32._turned import TILES as TURNED_TILES
from warpwise.ops.matmul_tf32._turned import addressable, along, copied

SKINNY = cuda.load(Path(__file__).parent / "k06_skinny.cu")
REORDERED = cuda.load(Path(__file__).parent / "reordered.cu")
WIDTHS = (8, 16, 32, 64, 128, 256)  # rows of A that a product takes
DEPTH = 32  # of a slice: what 128 bytes of a swizzled row hold
BEGIN = 8600  # clocks of a kernel that multiplies nothing
TILES = re.compile(rf"(\d+)x(\d+)x{DEPTH}_s(\d+)_k(\d+)_o(\d+)")


class From(NamedTuple):
    """Whether B's columns are what lies one after another, and whether its lines begin between 16 bytes."""

    by_columns: bool
    shifted: bool


class Tiles(NamedTuple):
    """``columns`` of B x ``rows`` of A, ``stages`` slices on their way.

    ``split`` blocks of a cluster divide K, and ``outer`` clusters divide it once more, by way of global memory.
    """

    columns: int
    rows: int
    stages: int
    split: int = 1
    outer: int = 1

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows}x{DEPTH}_s{self.stages}_k{self.split}_o{self.outer}"

    @classmethod
    def named(cls, name: str) -> Tiles:
        return cls(*numbers(name, TILES))

    def kernel(self, from_: From) -> str:
        rest = f"{self.columns // 64}, {self.rows}, {self.stages}, {self.split}"
        return f"matmul_skinny{'_shifted' if from_.shifted else ''}<{str(from_.by_columns).lower()}, {rest}>"

    def shared_bytes(self, from_: From) -> int:
        """Dynamic shared memory: the parts of a slice begin on 1 KiB, and lines of B that are shifted are four words longer."""
        longer = 4 * (self.columns if from_.by_columns else DEPTH) if from_.shifted else 0
        of_b = cdiv((self.columns * DEPTH + longer) * 4, 1024) * 1024
        return 1024 + self.stages * (of_b + self.rows * DEPTH * 4)

    def threads(self, from_: From) -> int:
        """Those that multiply, and a warp that feeds them; a warpgroup where it has to give registers."""
        moves = self.columns == 128 and self.rows == 256 and from_ != From(True, False)
        return 2 * self.columns + (128 if moves else 32)

    def clocks(self, m: int, n: int, k: int, processors: int) -> float:
        """An estimate of SM clocks: waves of blocks, whose slices wait for DRAM, for L2, for the way to the SM or for products.

        An H200's DRAM brings 2700 bytes a clock, 23 to an SM; L2 gives 5200, counting half of A, whose lines neighbours ask for
        at once; an SM takes 80. A slice of 64 columns is 2 clocks of the matrix units a row of A. What is not the slowest of
        these is hidden but for a ninth. A wave costs 8600 clocks to begin and to end, and its sums pass shared memory at 16
        bytes a clock; parts in global memory cost a launch more. Fitted to 500 times of 18 shapes.
        """
        tiles_m, tiles_n = max(1, cdiv(m, self.rows)), max(1, cdiv(n, self.columns))
        blocks = tiles_m * tiles_n * self.split * self.outer
        an_sm = min(128 // self.columns, ROOM // (self.shared_bytes(From(False, False)) + 1024))
        places = processors * an_sm
        waves = cdiv(blocks, places if self.split < 4 else places * 10 // 11)  # 30 clusters of 4 are at once on 132 SMs
        at_once = cdiv(blocks, waves)  # waves end one by one, not together
        busy = cdiv(at_once, processors)
        of_slice = (
            at_once * 128 * (self.columns / tiles_m + self.rows / tiles_n) / min(2700, 23 * min(at_once, processors)),
            at_once * 128 * (self.columns + self.rows / 2) / 5200,
            busy * (self.columns + self.rows) * 128 / 80,
            busy * self.columns * self.rows / 32,
        )
        slowest, slices = max(of_slice), cdiv(cdiv(k, DEPTH), self.split * self.outer)
        loop = slices * (slowest + (sum(of_slice) - slowest) / 9)
        parts = 4000 + self.outer * m * n * 8 / 4400 if self.outer > 1 else 0
        return waves * (BEGIN + loop + self.columns * self.rows * self.split / 4) + parts


def stages_of(columns: int, rows: int, an_sm: int) -> int:
    """Slices on their way, of ``an_sm`` blocks an SM: 64 KB of B are enough, 80 with 128 columns or two blocks, and with more
    blocks drift apart along K."""
    enough = 5 if columns == 128 or an_sm == 2 else 8 if rows < 128 else 6
    return min(enough, (ROOM // an_sm - 2048) // (cdiv((columns + 4) * DEPTH * 4, 1024) * 1024 + rows * DEPTH * 4))


def candidates(m: int, n: int, k: int, processors: int) -> list[Tiles]:
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
                whole = rows * (columns + 4) <= stages * (rows + columns) * DEPTH  # the sums take the slices' place
                deep = split * outer == 1 or k >= 2 * DEPTH * split * outer
                if stages >= 3 and whole and deep and outer >= 1 and (an_sm == 1 or columns == 64):
                    found.append(Tiles(columns, rows, stages, split, outer))
    return list(dict.fromkeys(found))


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, processors: int) -> tuple[Tiles, ...]:
    """The candidates, the one that is estimated to be fastest first."""
    return tuple(sorted(candidates(m, n, k, processors), key=lambda tiles: tiles.clocks(m, n, k, processors)))


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Its own choice, then those that are estimated to come next."""
    return tuple(map(str, ranked(*sizes(a, b), multiprocessors(a))[:8]))


def where(b: torch.Tensor) -> tuple[torch.Tensor, From]:
    """B's lines, as rows, and how they lie: where they are, if the copy engine can read them, which takes four lines at least
    where they begin between 16 bytes; else in a copy."""
    for by_columns, lines in ((True, b.t()), (False, b)):
        if addressable(lines):
            return lines, From(by_columns, False)
    storage = b.data_ptr() - b.storage_offset() * 4
    for by_columns, lines in ((True, b.t()), (False, b)):
        if lines.stride(1) == 1 and lines.stride(0) >= lines.shape[1] and lines.shape[0] >= 4 and storage % 16 == 0:
            return lines, From(by_columns, True)
    return copied(b), From(False, False)


def every_fourth(lines: torch.Tensor, box: tuple[int, int]) -> list[cuda.TensorMap]:
    """Maps of lines 4 j + i, each from the 16 bytes on in which its first line begins."""
    count, length, pitch = int(lines.shape[0]), int(lines.shape[1]), int(lines.stride(0))
    maps = []
    for first in range(4):
        begin = int(lines.storage_offset()) + first * pitch
        layout = (cdiv(count - first, 4), length + begin % 4), (4 * pitch, 1)
        fourth = lines.as_strided((1, 1), (1, 1), begin - begin % 4)
        maps.append(cuda.tensor_map(fourth, box, swizzle=0, tf32=True, layout=layout))
    return maps


def reordered(a: torch.Tensor) -> torch.Tensor:
    """A in rows of whole slices, in the order in which products of shifted rows take it."""
    m, k = a.shape
    result = a.new_empty((m, cdiv(k, DEPTH) * DEPTH))
    REORDERED["reordered"][cdiv(result.numel(), 256), 256](cuda.strided(a), *a.stride(), cuda.out(result), m, k)
    return result


def skinny(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tiles = Tiles.named(config) if config else ranked(m, n, k, multiprocessors(a))[0]
    lines, from_ = where(b)
    tiles_m, clusters = cdiv(m, tiles.rows), cdiv(n, tiles.columns) * tiles.outer
    rows = reordered(a) if from_ == From(False, True) else along(a)
    map_of_a = cuda.tensor_map(rows, (tiles.rows, DEPTH), tf32=True)
    sums = c if tiles.outer == 1 else c.new_empty((tiles.outer, m, n))
    grid = clusters * tiles_m * tiles.split, tiles.threads(from_), tiles.shared_bytes(from_)
    kernel, geometry = SKINNY[tiles.kernel(from_)][grid], (cuda.out(sums), m, n, k, tiles_m, tiles.outer)
    if from_.shifted:
        box = (tiles.columns // 4, DEPTH + 4) if from_.by_columns else (DEPTH // 4, tiles.columns + 4)
        maps = every_fourth(lines, box)
        kernel(map_of_a, *maps, lines.storage_offset() % 4, lines.stride(0) % 4, *geometry)
    else:
        box = (tiles.columns if from_.by_columns else DEPTH, DEPTH)
        kernel(map_of_a, cuda.tensor_map(lines, box, tf32=True), *geometry)
    if sums is not c:
        SKINNY["warpwise::reduce_partials<float>"][cdiv(m * n, 128), 256](sums, cuda.out(c), m * n, tiles.outer)


def pays(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether k06 should take less than k05: nearly always with up to 256 rows, whose time is DRAM's."""
    m, n, k = sizes(a, b)
    processors = multiprocessors(a)
    first, second = (m, n) if b.stride(0) == 1 else (n, m)
    other = min(tile.clocks(first, second, k, processors) for tile in TURNED_TILES)
    turned = a.stride(1) != 1 and b.stride(0) == 1  # k05 takes such an A as it lies
    turning = 4400 + 8 * m * k / 1600 if turned else 0
    return m <= 256 or ranked(m, n, k, processors)[0].clocks(m, n, k, processors) + turning < BEGIN + other
