"""The launcher of k07, its limits, configurations, and a model of their time."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.gemm.limits import GRID_Y, HOPPER_SHARED, requires_hopper, requires_k, size_limit
from warpwise.gemm.skinny import SkinnyTile
from warpwise.operation import cdiv, sm_count
from warpwise.ops.scaled_matmul._operands import contiguous_scales, k_major, l2_hints

SKINNY = cuda.load(Path(__file__).with_suffix(".cu"))

ROOM = HOPPER_SHARED - 1024  # a block's dynamic shared memory, beside the kernel's static
MOST_STAGES = 32  # two barriers each
WIDTHS = (8, 16, 32, 64, 128, 256)
FORM = re.compile(r"(\d+)x(\d+)x(\d+)_s(\d+)_k(\d+)_o(\d+)_w(\d+)_e(\d+)")


@dataclass(frozen=True)
class Fp8SkinnyConfig(SkinnyTile):
    """``sides``: warpgroups that divide the rows. ``hints``: L2 eviction policies, as in policies.cuh."""

    op, form = "scaled_matmul", FORM

    sides: int = 1
    hints: int = 0

    def __str__(self) -> str:
        return f"{super().__str__()}_w{self.sides}_e{self.hints}"

    @classmethod
    def deep(cls, k: int, columns: int, rows: int, **options: int) -> Fp8SkinnyConfig:
        """Stages of 256 of K if two fit, else of 128; as many as cover DRAM's latency or a split of ``k``."""
        for depth in (256, 128) if k > 128 else (128,):
            one = cls(columns, rows, depth, 1, **options)
            most = (ROOM - one.shared + one.stage_bytes) // one.stage_bytes
            if most > 1:
                break
        wanted = cdiv((96 if rows <= 16 else 128 if rows <= 64 else 227) * 1024, one.stage_bytes)
        needed = max(1, cdiv(cdiv(k, one.depth), one.split * one.outer))
        return replace(one, stages=min(MOST_STAGES, most, wanted, needed))

    @property
    def groups(self) -> int:
        """Warpgroups along the columns."""
        return cdiv(self.columns, 64)

    @property
    def threads(self) -> int:
        """Consumers, and a producer warp, or a warpgroup where it deallocates registers (setmaxnreg)."""
        teams = self.groups * self.sides
        return teams * 128 + (128 if teams == 4 or self.rows // self.sides > 128 else 32)

    @property
    def stage_bytes(self) -> int:
        return (self.columns + self.rows) * self.depth

    @property
    def behind(self) -> int:
        """Bytes past the last stage that warpgroups wider than the tile read."""
        return max(0, self.groups * 64 - self.columns - self.rows) * 128

    @property
    def owned(self) -> int:
        """Rows of the tile that a block of a cluster reduces and stores."""
        return self.rows // min(self.split, max(1, self.rows // self.sides // 16))

    @property
    def shared(self) -> int:
        """Bytes of shared memory: alignment, stages, 4 KiB per warpgroup, and partial sums from other blocks."""
        sent = (self.split - 1) * self.groups * 64 * self.owned * 4
        behind = max(self.behind, self.groups * self.sides * 4096 + sent)
        return 1024 + self.stages * self.stage_bytes + behind

    def time(self, m: int, n: int, k: int, processors: int) -> float:
        """An estimate in µs, without the launch, fitted to an H200: an SM's loads, its products, DRAM, reducing splits,
        starting blocks."""
        tiles_m, splits = cdiv(m, self.rows), self.split * self.outer
        blocks = tiles_m * cdiv(n, self.columns) * splits
        work = cdiv(blocks, processors) * cdiv(max(k, 1), 128) * 128 / splits
        read = work * (self.columns + self.rows) / 80e3
        products = work * self.groups * 64 * self.rows / (4096 * 1600)
        size = self.columns * self.rows / 8192  # of the tile, in 32 KB of sums
        added = (self.split > 1) * (1.8 + 3.5 * max(0.0, size - 1))
        added += (self.outer > 1) * (4.0 + 0.6 * self.outer * size / self.split)
        shape = (self.columns < 64) * 0.15 + (self.groups > 2) * 1.0 + tiles_m * 0.002 + min(blocks, processors) * 1e-3
        shape += (tiles_m > 1) * n * k / 16e6  # several SMs load the same of B from DRAM at once
        return max(read, products, (m + n) * k / 4.2e6) + 0.2 * (read + products) + added + shape

    def kernel(self, a: torch.Tensor, b: torch.Tensor, by_row: bool, aligned: bool) -> str:
        tile = f"{self.groups}, {self.sides}, {self.rows // self.sides}, {self.depth // 128}, {self.split}"
        flags = ", ".join(str(flag).lower() for flag in (by_row, aligned, self.outer > 1))
        return f"scaled_matmul_skinny<{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}, {tile}, {flags}>"


def launch(
    c: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    config: str | None = None,
) -> None:
    tiles = Fp8SkinnyConfig.named(config or configs(a, b, scale_a, scale_b)[0])
    (m, k), n = a.shape, b.shape[1]
    left, right = k_major(a, b)
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    map_a, map_b = cuda.tensor_map(left, (tiles.rows, 128)), cuda.tensor_map(right, (tiles.columns, 128))
    across = cdiv(n, tiles.columns) * tiles.split
    down, deep = cdiv(m, tiles.rows), cdiv(k, tiles.depth)
    partials = counters = None
    if tiles.outer > 1:
        sums = tiles.outer * across * down * tiles.groups * 64 * tiles.owned
        partials, counters = torch.empty(sums, dtype=torch.float32, device=c.device), semaphores(a, across * down)
    aligned = n % 8 == 0 and c.data_ptr() % 16 == 0
    SKINNY[tiles.kernel(a, b, by_row, aligned)][(across, down, tiles.outer), tiles.threads, tiles.shared](
        map_a,
        map_b,
        cuda.out(c),
        scale_a,
        scale_b,
        partials,
        counters,
        m,
        n,
        tiles.columns,
        tiles.stages,
        deep,
        cdiv(deep, tiles.split * tiles.outer),
        tiles.hints,
    )


def limits(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    """A Hopper GPU, and a grid of the largest tiles."""
    if a.shape[0] > 256 * GRID_Y:
        return f"takes up to {256 * GRID_Y} rows of a (grid.y is 16 bits), not {a.shape[0]}"
    return requires_hopper(a) or requires_k(a.shape[1]) or size_limit(a, b)


def configs(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> tuple[str, ...]:
    """The twelve fastest by ``time``."""
    return ranked(a.shape[0], b.shape[1], a.shape[1], sm_count(a))


def is_profitable(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if k05's pairs of tiles waste rows, or if a single short wave is dominated by prologue and epilogue.

    k07 gains nothing where operands must be copied first: 1000 x 3000 x 777 took it 23.9 µs on an H200, and k05 19.1
    µs.
    """
    (m, k), n, processors = a.shape, b.shape[1], sm_count(a)
    one_wave = k % 16 == 0 and cdiv(m, 256) * cdiv(n, 128) <= processors
    return m <= 128 or (one_wave and cdiv(m, 128) * cdiv(n, 128) * k <= 4096 * processors)


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, processors: int) -> tuple[str, ...]:
    found = dict.fromkeys(candidates(m, n, k, processors))
    return tuple(map(str, sorted(found, key=lambda tiles: tiles.time(m, n, k, processors))[:12]))


def candidates(m: int, n: int, k: int, processors: int) -> Iterator[Fp8SkinnyConfig]:
    """Tiles of a warpgroup's 64 columns, and of as many as give each SM a tile, with K divided or not."""
    for rows in (width for width in WIDTHS if width < 2 * max(m, 8) and cdiv(m, width) <= GRID_Y):
        tiles_m = max(1, cdiv(m, rows))
        for split in (1, 2):
            slots = max(1, processors // (split * tiles_m))
            filled = max(16, cdiv(max(n, 1), slots * 8) * 8)
            for columns in dict.fromkeys((64, min(filled, 32768 // rows, 256))):
                blocks = tiles_m * cdiv(max(n, 1), columns) * split
                room = min(processors // blocks, cdiv(k, 128 * split * 8))  # splits of eight k-tiles or more
                # A single warpgroup would multiply, wait and add one after the other.
                sides = 2 if rows >= 128 and columns <= 64 else 1
                for outer in dict.fromkeys(max(1, min(room, most)) for most in (1, 4, 16)):
                    options = {"split": split, "outer": outer, "sides": sides}
                    yield Fp8SkinnyConfig.deep(k, columns, rows, hints=l2_hints(m, n, k), **options)
