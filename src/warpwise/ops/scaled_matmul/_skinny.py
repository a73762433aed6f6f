"""The launcher of k07: few rows, few tiles, and any size, by tiles of any multiple of eight columns."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops._tickets import tickets
from warpwise.ops.scaled_matmul._operands import HERE, factors, hints, padded, scales, too_large

SKINNY = cuda.load(HERE / "k07_skinny.cu")
ROOM = 227 * 1024 - 1024  # shared memory that a block may have on Hopper, but what the kernel declares itself
GRID = 2**31  # blocks
MOST_STAGES = 32  # two barriers each
WIDTHS = (8, 16, 32, 64, 128, 256)
FORM = re.compile(r"(\d+)x(\d+)x(\d+)_s(\d+)_k(\d+)_c(\d+)_o(\d+)_e(\d+)")


@dataclass(frozen=True)
class Tiles:
    """A configuration: ``columns`` of B x ``rows`` of A x ``depth`` a stage, ``stages`` of them on their way.

    ``split`` blocks of a cluster divide K, ``share`` neighbouring tiles load A for each other, and ``outer`` clusters
    divide K once more, by way of global memory. ``hints``: what L2 is told, as policies.cuh has it.
    """

    columns: int
    rows: int
    depth: int
    stages: int
    split: int = 1
    share: int = 1
    outer: int = 1
    hints: int = 0

    def __str__(self) -> str:
        tile = f"{self.columns}x{self.rows}x{self.depth}"
        parts = f"k{self.split}_c{self.share}_o{self.outer}_e{self.hints}"
        return f"{tile}_s{self.stages}_{parts}"

    @classmethod
    def named(cls, name: str) -> Tiles:
        """Raises ``ValueError`` for a name of another form."""
        if not (found := FORM.fullmatch(name)):
            raise ValueError(f"expected a configuration of the form {FORM.pattern}, got {name!r}")
        return cls(*map(int, found.groups()))

    @classmethod
    def deep(cls, k: int, columns: int, rows: int, **options: int) -> Tiles:
        """Stages of some 40 KB at most, and as many as DRAM's latency asks for, or as a part of ``k`` has."""
        # Several slices a stage where their sums are few registers, in powers of two.
        most = min(64 // min(rows, 64), 40960 // ((columns + rows) * 128), cdiv(k, 128))
        slices = 4 if most >= 4 else 2 if most >= 2 else 1
        one = cls(columns, rows, 128 * slices, 1, **options)
        most = (ROOM - 1024 - one.behind) // one.stage_bytes
        asked = max(4, (96 if rows <= 64 else 168 if rows <= 128 else 227) * 1024 // one.stage_bytes)
        needed = max(2, cdiv(cdiv(k, one.depth), one.split * one.outer))
        return replace(one, stages=min(MOST_STAGES, most, asked, needed))

    @property
    def groups(self) -> int:
        """Warpgroups along the columns."""
        return cdiv(self.columns, 64)

    @property
    def sides(self) -> int:
        """Warpgroups along the rows: a single one would multiply, wait and add in turn."""
        return 2 if self.rows >= 128 and self.groups == 1 else 1

    @property
    def threads(self) -> int:
        """Those that multiply, and a warp that feeds, or a warpgroup where registers are moved from it."""
        teams = self.groups * self.sides
        return teams * 128 + (128 if teams == 4 or self.rows // self.sides > 128 else 32)

    @property
    def stage_bytes(self) -> int:
        return (self.columns + self.rows) * self.depth

    @property
    def behind(self) -> int:
        """Bytes past the last slice that warpgroups wider than the tile read."""
        return max(0, self.groups * 64 - self.columns - self.rows) * 128

    @property
    def shared(self) -> int:
        """Bytes of shared memory: alignment, and the stages, in whose place the finished tile is put."""
        staged = self.rows * (self.groups * 64 + 4) * 4
        return 1024 + max(self.stages * self.stage_bytes + self.behind, staged)

    def time(self, m: int, n: int, k: int, processors: int) -> float:
        """Microseconds beside those of a launch, by a model fitted to an H200: what an SM reads, its products, DRAM, and
        what it costs to add parts, to share A and to begin blocks."""
        tiles_m, parts = cdiv(m, self.rows), self.split * self.outer
        blocks = tiles_m * cdiv(n, self.columns * self.share) * self.share * parts
        work = cdiv(blocks, processors) * cdiv(max(k, 1), 128) * 128 / parts
        read = work * (self.columns + self.rows) / 80e3
        products = work * self.groups * 64 * self.rows / (4096 * 1600)
        size = self.columns * self.rows / 8192  # of the tile, in 32 KB of sums
        added = (self.split > 1) * (0.7 + 3.5 * max(0.0, size - 1)) + (self.share > 1) * 1.5
        added += (self.outer > 1) * (4.0 + 0.6 * self.outer * size / self.split)
        shape = (self.columns < 64) * 0.15 + (self.groups > 2) * 1.0 + tiles_m * 0.002 + min(blocks, processors) * 1e-3
        return max(read, products, (m + n) * k / 4.2e6) + 0.2 * (read + products) + added + shape

    def kernel(self, a: torch.Tensor, b: torch.Tensor) -> str:
        return (
            f"scaled_matmul_skinny<{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}, {self.groups}, {self.sides}, "
            f"{self.rows // self.sides}, {self.depth // 128}, {self.split}, {self.share}>"
        )


def skinny(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
    *, config: str | None = None,
) -> None:  # fmt: skip
    tiles = Tiles.named(config or skinny_configs(a, b, scale_a, scale_b)[0])
    (m, k), n = a.shape, b.shape[1]
    left, right = padded(*factors(a, b))
    scale_a, scale_b, by_row = scales(scale_a, scale_b)
    of_a = cuda.tensor_map(left, (tiles.rows // tiles.share, 128))
    of_b = cuda.tensor_map(right, (tiles.columns, 128))
    tiles_m, across = cdiv(m, tiles.rows), cdiv(n, tiles.columns * tiles.share)
    blocks, pitch = tiles_m * across * tiles.split * tiles.share, cdiv(n, 4) * 4
    many = tiles.outer > 1
    parts = torch.empty((tiles.outer, m, pitch), dtype=torch.float32, device=c.device) if many else None
    counters = tickets(a, blocks) if many else None
    SKINNY[tiles.kernel(a, b)][blocks * tiles.outer, tiles.threads, tiles.shared](
        of_a, of_b, cuda.out(c), scale_a, scale_b, parts, counters, by_row, m, n, k, pitch,
        tiles.columns, tiles.stages, tiles_m, tiles.outer, tiles.hints,
    )  # fmt: skip


def skinny_configs(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> tuple[str, ...]:
    """The tiles that a model of the GPU finds fastest, then those that come next, for a table to be made of."""
    return _ranked(a.shape[0], b.shape[1], a.shape[1], multiprocessors(a))


@functools.lru_cache(maxsize=1024)
def _ranked(m: int, n: int, k: int, processors: int) -> tuple[str, ...]:
    found = dict.fromkeys(candidates(m, n, k, processors))
    return tuple(map(str, sorted(found, key=lambda tiles: tiles.time(m, n, k, processors))[:12]))


def candidates(m: int, n: int, k: int, processors: int) -> Iterator[Tiles]:
    """Tiles of a warpgroup's 64 columns, and of those that give each SM a tile, however K is divided and A shared."""
    for rows in (width for width in WIDTHS if width < 2 * max(m, 8)):
        tiles_m = max(1, cdiv(m, rows))
        for split, share in ((1, 1), (2, 1), (1, 2)):
            slots = max(1, processors // (split * share * tiles_m))
            filled = max(16, cdiv(max(n, 1), slots * share * 8) * 8)
            for columns in dict.fromkeys((64, min(filled, 32768 // rows, 256))):
                blocks = tiles_m * cdiv(max(n, 1), columns) * split
                room = min(processors // blocks, cdiv(k, 128 * split * 8))  # parts of eight slices or more
                for outer in dict.fromkeys(max(1, min(room, most)) for most in (1, 4, 16)):
                    if rows // share >= 8 and blocks * share * outer < GRID:
                        parts = {"split": split, "share": share, "outer": outer}
                        yield Tiles.deep(k, columns, rows, hints=hints(m, n, k), **parts)


def few_tiles(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether k05's pairs of tiles waste rows, or leave half of the SMs idle."""
    m, n = a.shape[0], b.shape[1]
    return m <= 128 or 4 * cdiv(m, 256) * cdiv(n, 128) <= multiprocessors(a)


def any_size(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    """The limits of k07: a Hopper GPU, and a grid of its largest tiles."""
    if cdiv(a.shape[0], 256) * cdiv(b.shape[1], 64) >= GRID // 2:
        return f"takes up to {GRID // 2} tiles of 256 x 64, not a result of {a.shape[0]} x {b.shape[1]}"
    return not_hopper(a) or too_large(a, b)
