"""Launchers for products of few rows or few tiles: what fills the GPU is a division of K."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops._tickets import tickets
from warpwise.ops.matmul._shared import HERE, sizes, too_large

STREAM_K = cuda.load(HERE / "k18_stream_k.cu")
SKINNY = cuda.load(HERE / "k19_skinny.cu")
BOX = 64  # elements: what 128 bytes of a swizzled row hold
ROOM = 227 * 1024  # shared memory that a block may have on Hopper
WIDTHS = (8, 16, 32, 64, 128, 256)
TILES = re.compile(r"(\d+)x(\d+)x(\d+)_s(\d+)_k(\d+)_o(\d+)")
STREAM_K_TILES = re.compile(r"(\d+)x(\d+)x(\d+)_s(\d+)")
SPLIT_K = re.compile(r"(\d+)x(\d+)x(\d+)_w(\d+)_s(\d+)_p(\d+)")  # block, warps, stages, parts of K


def numbers(config: str, form: re.Pattern[str]) -> tuple[int, ...]:
    """The numbers in a configuration's name. Raises ``ValueError`` for a name of another form."""
    found = form.fullmatch(config)
    if not found:
        raise ValueError(f"matmul: expected a configuration of the form {form.pattern}, got {config!r}")
    return tuple(map(int, found.groups()))


@dataclass(frozen=True)
class Tiles:
    """A configuration of k19: ``columns`` of B x ``rows`` of A x ``depth`` a slice, ``stages`` slices on their way.

    ``split`` blocks of a cluster divide K, and ``outer`` clusters divide it once more, by way of global memory.
    """

    columns: int
    rows: int
    depth: int
    stages: int
    split: int = 1
    outer: int = 1

    def __str__(self) -> str:
        tile = f"{self.columns}x{self.rows}x{self.depth}"
        return f"{tile}_s{self.stages}_k{self.split}_o{self.outer}"

    @property
    def shared_bytes(self) -> int:
        return 1024 + self.stages * (self.columns + self.rows) * 2 * self.depth

    @classmethod
    def named(cls, name: str) -> Tiles:
        return cls(*numbers(name, TILES))

    def clocks(self, m: int, n: int, k: int, processors: int) -> float:
        """An estimate of SM clocks: waves of blocks, whose slices wait for DRAM, for L2, for the way to the SM or for products.

        An H200's DRAM brings 2450 bytes a clock, 24 to an SM that has 64 KB on their way; L2 gives 3100, not counting A,
        which neighbours ask for at once and are given at once; an SM takes 64. 64 columns x 64 deep x a row of A are 2
        clocks of the matrix units. What is not the slowest of these is hidden but for an eighth. A wave costs 3000 clocks
        to begin and to end, and its float32 sums pass shared memory at 32 bytes a clock, twice where K is halved.
        """
        tiles_m, tiles_n = max(1, cdiv(m, self.rows)), max(1, cdiv(n, self.columns))
        blocks = tiles_m * tiles_n * self.split * self.outer
        an_sm = ROOM // (self.shared_bytes + 1024)
        waves = cdiv(blocks, processors * an_sm)
        at_once = cdiv(blocks, waves)  # waves end one by one, not together
        busy = cdiv(at_once, processors)
        read_once = at_once * 128 * (self.columns / tiles_m + self.rows / tiles_n)
        of_slice = (
            read_once / min(2450, 24 * min(at_once, processors)),
            at_once * 128 * self.columns / 3100,
            busy * (self.columns + self.rows) * 128 / 64,
            busy * self.columns * self.rows / 32,
        )
        slowest, slices = max(of_slice), cdiv(cdiv(k, BOX), self.split * self.outer)
        loop = slices * (slowest + (sum(of_slice) - slowest) / 8)
        parts = 6000 + self.outer * m * n * 8 / 2450 if self.outer > 1 else 0
        return waves * (3000 + loop + self.columns * self.rows * self.split / 8) + parts


def addressable(matrix: torch.Tensor) -> torch.Tensor | None:
    """``matrix`` with rows that the copy engine can address where they lie, or None: each begins on 16 bytes."""
    rows, columns = matrix.shape
    if (matrix.stride(1) != 1 and columns > 1) or matrix.data_ptr() % 16:
        return None
    pitch = matrix.stride(0) if rows > 1 else cdiv(columns, 8) * 8
    if pitch % 8 or pitch < columns:
        return None
    return matrix.as_strided((rows, columns), (pitch, 1))


def copied(matrix: torch.Tensor) -> torch.Tensor:
    """A row-major copy in memory of its own: ``contiguous`` would hand back a matrix that begins between 16 bytes."""
    return matrix.clone(memory_format=torch.contiguous_format)


def lying(matrix: torch.Tensor) -> tuple[torch.Tensor, bool] | None:
    """``matrix`` or its transpose as the copy engine can address it where it lies, and whether that is the transpose; or None."""
    for turned, way in ((False, matrix), (True, matrix.t())):
        if (rows := addressable(way)) is not None:
            return rows, turned
    return None


def laid_out(matrix: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """What the copy engine is to read ``matrix`` from, and whether that is its transpose: copied only if it can read neither."""
    return lying(matrix) or (copied(matrix), False)


def mapped(
    a: torch.Tensor, b: torch.Tensor, box: tuple[int, int]
) -> tuple[tuple[cuda.TensorMap, cuda.TensorMap], bool]:
    """Tensor maps of a, in boxes of ``box[0]`` rows, and of b, in boxes of ``box[1]`` columns where it is k-major; is it?"""
    rows = addressable(a)
    read, by_columns = laid_out(b)
    map_of_a = cuda.tensor_map(copied(a) if rows is None else rows, (box[0], BOX))
    return (map_of_a, cuda.tensor_map(read, (box[1] if by_columns else BOX, BOX))), by_columns


def skinny_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    if reason := not_hopper(a):
        return reason
    _, n, k = sizes(a, b)
    if addressable(a) is None and k % 8:
        return f"takes an a whose rows begin on 16 bytes, not k = {k} with strides {a.stride()}"
    if lying(b) is None and n % 8:
        return f"takes a b whose rows or columns begin on 16 bytes, not n = {n} with strides {b.stride()}"
    return too_large(a, b)


def stages_of(columns: int, rows: int, depth: int, room: int) -> int:
    """Slices on their way in ``room`` bytes: 64 or 80 KB of B are enough, and with more a kernel was slower."""
    enough = (64 if rows <= 32 else 80) * 1024 // (columns * 2 * depth)
    return min(max(4, enough), room // ((columns + rows) * 2 * depth))


def candidates(m: int, n: int, k: int, processors: int) -> list[Tiles]:
    """Tiles that hold all rows of A, or 256 or 128 of many, with K whole, halved, or divided to fill the GPU.

    Each for one block an SM and for two. Slices are 128 deep for 64 rows or more where four of them fit.
    """
    widest = next((width for width in WIDTHS if width >= m), WIDTHS[-1])
    found = []
    for rows in (256, 128) if widest == 256 else (widest,):
        for columns, split, room in itertools.product((64, 128), (1, 2), (ROOM - 2048, ROOM // 2 - 2048)):
            depth = 2 * BOX if rows >= 64 and stages_of(columns, rows, 2 * BOX, room) >= 4 else BOX
            stages = stages_of(columns, rows, depth, room)
            tiles, slices = max(1, cdiv(m, rows) * cdiv(n, columns)), cdiv(k, depth)
            for outer in (1, min(processors // (split * tiles), cdiv(k, BOX) // 16)):
                if stages >= 3 and outer >= 1 and slices >= split * outer:
                    found.append(Tiles(columns, rows, depth, stages, split, outer))
    return list(dict.fromkeys(found)) or [Tiles(64, widest, BOX, 4)]


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, processors: int) -> tuple[Tiles, ...]:
    """The candidates, the one that is estimated to be fastest first."""
    return tuple(sorted(candidates(m, n, k, processors), key=lambda tiles: tiles.clocks(m, n, k, processors)))


def tiles_for(m: int, n: int, k: int, processors: int) -> Tiles:
    """The configuration that k19 takes by itself: see the README for what each choice was worth."""
    return ranked(m, n, k, processors)[0]


def skinny_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Its own choice, then those that are estimated to come next, for a table to be made of."""
    return tuple(map(str, ranked(*sizes(a, b), multiprocessors(a))[:10]))


def skinny_kernel(a: torch.Tensor, tiles: Tiles, by_columns: bool) -> str:
    element = cuda.ctype(a.dtype)
    sums = element if tiles.outer == 1 else "float"
    return (
        f"matmul_skinny<{element}, {sums}, {tiles.columns // 64}, {tiles.rows}, {str(by_columns).lower()}, "
        f"{tiles.depth}, {tiles.stages}, {tiles.split}>"
    )


def skinny(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tiles = Tiles.named(config) if config else tiles_for(m, n, k, multiprocessors(a))
    maps, by_columns = mapped(a, b, (tiles.rows, tiles.columns))
    tiles_m, clusters = cdiv(m, tiles.rows), cdiv(n, tiles.columns) * tiles.outer
    grid = clusters * tiles_m * tiles.split, 2 * tiles.columns + 32, tiles.shared_bytes
    sums = c if tiles.outer == 1 else c.new_empty((tiles.outer, m, n), dtype=torch.float32)
    SKINNY[skinny_kernel(a, tiles, by_columns)][grid](*maps, cuda.out(sums), m, n, k, tiles_m, tiles.outer)
    if sums is not c:
        add = SKINNY[f"warpwise::sum_of_parts<{cuda.ctype(a.dtype)}>"]
        add[cdiv(m * n, 128), 256](sums, cuda.out(c), m * n, tiles.outer)


def split_k(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    from warpwise.ops.matmul.k17_split_k import matmul_split_k, sum_of_parts

    m, n, k = sizes(a, b)
    block_m, block_n, block_k, warps, stages, parts = numbers(config or split_k_configs(a, b)[0], SPLIT_K)
    sums = c if parts == 1 else c.new_empty((parts, m, n), dtype=torch.float32)
    matmul_split_k[(cdiv(m, block_m) * cdiv(n, block_n) * parts,)](
        a, b, sums, m, n, k, *a.stride(), *b.stride(), parts,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    if parts > 1:
        sum_of_parts[(cdiv(m * n, 1024),)](sums, c, m * n, parts, BLOCK=1024, num_warps=4)


def split_k_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Tiles by the dtype and the rows of A, and parts of K so that some four warps' programs come to each SM."""
    m, n, k = sizes(a, b)
    short = a.dtype != torch.float32
    block_m = next((size for size in (16, 32, 64) if size >= m), 64)
    names = []
    for block_n, block_k, warps, stages in (
        ((64, 128, 4, 4), (128, 64, 4, 4)) if short else ((64, 32, 4, 4), (128, 32, 4, 3))
    ):
        tiles, slices = cdiv(m, block_m) * cdiv(n, block_n), cdiv(k, block_k)
        fill = cdiv(2 * multiprocessors(a), max(1, tiles))
        for parts in dict.fromkeys((fill, cdiv(fill, 2), 2 * fill, 1)):
            names.append(f"{block_m}x{block_n}x{block_k}_w{warps}_s{stages}_p{max(1, min(parts, slices // 2))}")
    return tuple(dict.fromkeys(names))


def stream_k_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    m, _, _ = sizes(a, b)
    rows = next((width for width in WIDTHS if width >= m), WIDTHS[-1])
    widths = dict.fromkeys((rows, max(8, rows // 2), max(8, rows // 4)))
    each = {width: (ROOM - 2048 - min(width, 32) * 132 * 4) // ((128 + width) * 2 * BOX) for width in widths}
    return tuple(f"128x{width}x{BOX}_s{min(12, each[width])}" for width in widths)


def stream_k_kernel(a: torch.Tensor, config: str, by_columns: bool) -> str:
    columns, rows, depth, stages = numbers(config, STREAM_K_TILES)
    order = str(by_columns).lower()
    return f"matmul_stream_k<{cuda.ctype(a.dtype)}, {columns // 64}, {rows}, {order}, {depth}, {stages}>"


def stream_k(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    config = config or stream_k_configs(a, b)[0]
    columns, rows, depth, stages = numbers(config, STREAM_K_TILES)
    maps, by_columns = mapped(a, b, (rows, columns))
    tiles_m, tiles = cdiv(m, rows), cdiv(m, rows) * cdiv(n, columns)
    blocks = min(multiprocessors(a), tiles * cdiv(k, depth))
    partials = c.new_empty(2 * blocks * columns * rows, dtype=torch.float32)
    shared = 1024 + stages * (columns + rows) * 2 * depth + min(rows, 32) * (columns + 4) * 4
    kernel = STREAM_K[stream_k_kernel(a, config, by_columns)]
    kernel[blocks, 2 * columns + 32, shared](*maps, c, partials, tickets(a, tiles), m, n, k, tiles_m, tiles)
