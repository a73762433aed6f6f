"""The launcher of k19, its configurations, and a model of their time."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.gemm.limits import HOPPER_SHARED
from warpwise.gemm.operands import sizes
from warpwise.gemm.skinny import BOX, SkinnyTile, resident_clusters
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matmul._shared import operand_maps

SKINNY = cuda.load(Path(__file__).with_suffix(".cu"))

WIDTHS = (8, 16, 32, 64, 96, 128, 192, 256)  # rows of A: wgmma's n
MOST_STAGES, IN_FLIGHT = 8, 21 << 20  # stages of a block, bytes in flight of all blocks
SMALL, WIDEST = 1 << 20, 192 * 192  # elements: of a C for which small tiles are tried, of the largest tile in registers
FORM = re.compile(r"(\d+)x(\d+)x(\d+)_s(\d+)_k(\d+)_o(\d+)(?:_c([12])x([12]))?")
# Fitted to 320 times of 27 products on an H200. Bytes per clock of DRAM, and its latency in clocks; bytes per clock of
# L2, and the weight of A there, which neighbouring blocks load at once; bytes per clock into an SM; the fraction of the
# resources other than the bottleneck that is not hidden.
DRAM, LATENCY, L2, OF_A, ALL_A, INGRESS, SHOWS = 2380, 2400, 5570, 0.5, 0.14, 73, 0.14
FULL = 160 * 1024  # bytes in flight to an SM below which loads are slower
MANY = 32  # tiles side by side whose blocks load the same rows of A at once
RAGGED = 1.8  # times as many lines of L2 where rows do not begin on a line
# Clocks: to start a block and a cluster, for a stage, for an element of C; to reduce in a cluster, and its bytes a
# clock; to reduce through global memory, and its bytes per clock.
START, CLUSTER, STAGE, ELEMENT = 1500, 1000, 18, 0.09
DSMEM_LATENCY, DSMEM_RATE, SEMAPHORE, REDUCE_RATE = 220, 13, 5000, 54


@dataclass(frozen=True)
class SkinnyConfig(SkinnyTile):
    """Blocks of ``down`` x ``across`` neighbouring tiles, one or a pair, multicast the operand that they share."""

    op, form = "matmul", FORM

    down: int = 1
    across: int = 1

    def __str__(self) -> str:
        return super().__str__() + (f"_c{self.down}x{self.across}" if self.pair > 1 else "")

    @property
    def pair(self) -> int:
        """Blocks that multicast: one above the other they share B, side by side A."""
        return self.down * self.across

    @property
    def cluster(self) -> int:
        return self.split * self.pair

    @property
    def ring(self) -> int:
        """Bytes of shared memory of the stages and their alignment."""
        return 1024 + self.stages * (self.columns + self.rows) * 2 * self.depth

    @property
    def owners(self) -> int:
        """Blocks of a cluster that each reduce and store some of the tile's rows, in 8-row core matrices."""
        return min(self.split, self.rows // 8)

    @property
    def sent(self) -> int:
        """Bytes of partial sums that a block receives from the others."""
        return (self.split - 1) * self.columns * self.rows * 4 // self.owners

    @property
    def separate_buffer(self) -> bool:
        """True if received sums have their own shared memory: no block then waits until another's stages are read."""
        blocks = HOPPER_SHARED // (self.ring + 1024)
        return self.split > 1 and blocks * (self.ring + self.sent + 1024) <= HOPPER_SHARED

    @property
    def shared_bytes(self) -> int:
        return self.ring + (self.sent if self.separate_buffer else 0)

    @property
    def fits(self) -> bool:
        """True if the stages fit into shared memory, and the epilogue's data (received sums, C) into the stages."""
        epilogue_bytes = (0 if self.separate_buffer else self.sent) + self.columns * self.rows // self.owners * 2
        whole = self.rows % (8 * self.owners) == 0 and self.rows % (8 * self.across) == 0
        return whole and epilogue_bytes <= self.ring - 1024 and self.shared_bytes + 1024 <= HOPPER_SHARED

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Rows and columns of pairs of tiles in C, or of tiles."""
        return max(1, cdiv(m, self.rows * self.down)), max(1, cdiv(n, self.columns * self.across))

    def clocks(self, m: int, n: int, k: int, processors: int) -> float:
        """An estimate of SM clocks: waves of blocks, each bound by DRAM, L2, the SM's ingress or wgmma.

        wgmma takes 2 clocks for 64 columns x 64 of K x a row of A.
        """
        down, across = self.tiles(m, n)
        clusters = down * across * self.outer
        waves = cdiv(
            clusters, resident_clusters(self.cluster, processors) * (HOPPER_SHARED // (self.shared_bytes + 1024))
        )
        at_once = cdiv(clusters * self.cluster, waves)  # waves end one by one, not together
        busy, used = cdiv(at_once, processors), min(at_once, processors)
        of_a = ALL_A if down * self.down == 1 and across * self.across >= MANY else OF_A
        lines = 128 * (RAGGED if n % BOX or k % BOX else 1)
        coming = (self.ring - 1024) * busy
        slower = max(1, FULL / coming) if self.rows >= 96 else 1
        once = self.columns / (down * self.down) + self.rows / (across * self.across)
        of_k_tile = (
            at_once * 128 * once / min(DRAM, used * min(64, coming / LATENCY)),
            at_once * lines * (self.columns / self.down + of_a * self.rows / self.across) / L2,
            busy * lines * (self.columns + self.rows) / INGRESS * slower,
            busy * self.columns * self.rows / 32,
        )
        slowest, deep = max(of_k_tile), self.depth // BOX
        each = slowest + (sum(of_k_tile) - slowest) * SHOWS
        loop = cdiv(cdiv(k, self.depth), self.split * self.outer) * (each * deep + STAGE) + of_k_tile[2] / busy * deep
        elements = self.columns * self.rows / self.owners
        end = elements * ELEMENT
        if self.split > 1:
            end += DSMEM_LATENCY + self.sent / DSMEM_RATE
        if self.outer > 1:
            end += SEMAPHORE + self.outer * elements * 4 / REDUCE_RATE
        return waves * (START + (CLUSTER if self.cluster > 1 else 0) + loop + end)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    chosen = SkinnyConfig.named(config) if config else ranked(m, n, k, sm_count(a))[0]
    maps, b_k_major = operand_maps(a, b, (chosen.rows // chosen.across, chosen.columns), chosen.down)
    tiles_m, across = cdiv(m, chosen.rows * chosen.down), cdiv(n, chosen.columns * chosen.across)
    blocks = tiles_m * across * chosen.pair
    launch = blocks * chosen.outer * chosen.split, 2 * chosen.columns + 32, chosen.shared_bytes
    boxes = n % 8 == 0 and c.data_ptr() % 16 == 0
    c_map = cuda.tensor_map(c, (chosen.rows // chosen.owners, BOX)) if boxes else maps[0]
    partials = counters = None
    if chosen.outer > 1:
        partials = c.new_empty(blocks * chosen.outer * chosen.columns * chosen.rows, dtype=torch.float32)
        counters = semaphores(a, blocks * chosen.owners)
    SKINNY[kernel_name(a, chosen, b_k_major)][launch](
        *maps, c_map, cuda.out(c), partials, counters, boxes, m, n, k, tiles_m, chosen.outer
    )


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """The twelve configurations that are estimated to be fastest, in order."""
    return tuple(map(str, ranked(*sizes(a, b), sm_count(a))[:12]))


def kernel_name(a: torch.Tensor, config: SkinnyConfig, b_k_major: bool) -> str:
    order, separate = (str(value).lower() for value in (b_k_major, config.separate_buffer))
    shared = "b" if config.down > 1 else "a" if config.across > 1 else "nothing"
    return (
        f"matmul_skinny{'_no_cluster' if config.split * config.pair == 1 else ''}<{cuda.ctype(a.dtype)}, "
        f"{config.columns // 64}, {config.rows}, {order}, {config.depth}, {config.stages}, {config.split}, {separate}, "
        f"Shared::{shared}>"
    )


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, processors: int) -> tuple[SkinnyConfig, ...]:
    """The candidates, the fastest by ``clocks`` first."""
    return tuple(sorted(candidates(m, n, k, processors), key=lambda tiles: tiles.clocks(m, n, k, processors)))


def candidates(m: int, n: int, k: int, processors: int) -> list[SkinnyConfig]:
    """Tiles that hold all rows of A, or some of many, in pairs or not, with K whole or divided to fill the GPU.

    Each for one block an SM and for two, with stages of 64 of K and, for 64 rows or more, of 128.
    """
    widest = next((width for width in WIDTHS if width >= m), WIDTHS[-1])
    least, splits = 32 if m * n <= SMALL else 96, [1, 2, 4, 8]
    heights = {width for width in WIDTHS if width == widest or least <= width < widest}
    if m <= 256 and 8 * cdiv(n, BOX) >= 3 * processors:  # few rows, whose halves of K fill the GPU
        heights, splits = {widest, min(widest, 128)}, [1, 2]
    found = []
    for rows in sorted(heights):
        pairs = [(1, 1), *([(2, 1)] if m > rows else []), *([(1, 2)] if n > BOX and rows >= 64 else [])]
        for columns, split, pair, deep, blocks in itertools.product((64, 128, 192), splits, pairs, (1, 2), (1, 2)):
            cluster = split * pair[0] * pair[1]
            if cluster > 8 or (cluster > 2 and blocks > 1) or (deep > 1 and rows < 64) or columns * rows > WIDEST:
                continue
            down, across = SkinnyConfig(columns, rows, BOX, 1, split, 1, *pair).tiles(m, n)
            fill = min(resident_clusters(cluster, processors) * blocks // (down * across), cdiv(k, BOX) // (4 * split))
            for outer in sorted({1, max(1, fill)}):
                tiles = SkinnyConfig(columns, rows, BOX * deep, 1, split, outer, *pair)
                many = min(down * across * outer * cluster, processors * blocks)
                for sent in sorted({0, tiles.sent}):  # room for stages alone, or for stages and received sums
                    tiles = replace(tiles, stages=stages(tiles, m, many, HOPPER_SHARED // blocks - 2048 - sent))
                    if tiles.stages >= 4 and tiles.fits and cdiv(k, tiles.depth) >= split * outer:
                        found.append(tiles)
    return list(dict.fromkeys(found)) or [SkinnyConfig(64, widest, BOX, 4)]


def stages(tiles: SkinnyConfig, m: int, blocks: int, room: int) -> int:
    """Pipeline stages in ``room`` bytes, as measured on an H200.

    Up to 256 rows read B once, and 64 or 80 KB of it in flight are enough; where tiles share B and K is divided, some
    21 MB over all ``blocks``.
    """
    stage_bytes = (tiles.columns + tiles.rows) * 2 * tiles.depth
    most = min(MOST_STAGES, room // stage_bytes)
    if m <= 256:
        most = min(most, max(4, (64 if tiles.rows <= 32 else 80) * 1024 // (tiles.columns * 2 * tiles.depth)))
    if tiles.split * tiles.outer > 1 and tiles.rows <= min(128, m - 1):
        most = min(most, IN_FLIGHT // (blocks * stage_bytes))
    return most
