"""The launcher of k13, its limits and configurations, and how each operand is loaded."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm.limits import grid_of_tiles, requires_hopper, requires_k
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count

WARP_SPECIALISED = cuda.load(Path(__file__).with_suffix(".cu"))

TMA, MN_MAJOR, K_MAJOR = (f"warpwise::{name}" for name in ("kTma", "kMnMajor", "kKMajor"))
THREADS, STAGING = 384, 8 * 8 * 80 * 4  # four producer warps, eight consumers; bytes of staged sums
MOST_SPLITS = 64


class SimtConfig(NamedTuple):
    """A block's tile of C, the k of a stage, pipeline stages, and the time of a multiply-add relative to the best
    tile's: with B loaded by TMA, and by cp.async."""

    rows: int
    columns: int
    depth: int
    stages: int
    tma: float
    cp_async: float

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.columns}x{self.depth}_s{self.stages}"

    def config(self, splits: int) -> str:
        """The name with the tiles of the last, partial wave split along K into ``splits``."""
        return f"{self.name}_p{splits}" if splits > 1 else self.name

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Rows and columns of tiles in C."""
        return cdiv(m, self.rows), cdiv(n, self.columns)

    def clocks(self, m: int, n: int, k: int, blocks: int, b_by_tma: bool, splits: int = 1) -> float:
        """An estimate of the busiest block's clocks: 128 multiply-adds per clock, prologue, epilogue, reduction."""
        rows, columns = self.tiles(m, n)
        size, split_tiles = self.rows * self.columns, rows * columns % blocks if splits > 1 else 0
        clocks_per_k = size / 128 * 1.2 * (self.tma if b_by_tma else self.cp_async)
        ending = 4000 + size / 4
        clocks = cdiv(rows * columns - split_tiles, blocks) * (clocks_per_k * k + ending)
        if split_tiles:
            clocks += cdiv(split_tiles * splits, blocks) * (clocks_per_k * cdiv(k, splits) + ending)
            clocks += 8000 + split_tiles * splits * size / 125
        return clocks

    def shared(self, padding: int) -> int:
        """Bytes of shared memory: stages with ``padding`` floats for each k, two barriers each, and staged sums."""
        return 128 + self.stages * (self.depth * (self.rows + self.columns + padding) * 4 + 16) + STAGING


CONFIGS = (
    SimtConfig(128, 256, 8, 12, 1.0, 1.14),
    SimtConfig(128, 256, 16, 8, 1.015, 1.1),
    SimtConfig(256, 128, 8, 12, 1.02, 1.16),
    SimtConfig(128, 128, 16, 8, 1.01, 1.18),
    SimtConfig(64, 256, 16, 8, 1.015, 1.22),
    SimtConfig(64, 128, 32, 8, 1.02, 1.25),
    SimtConfig(128, 64, 32, 8, 1.09, 1.26),
    SimtConfig(32, 256, 32, 5, 1.015, 1.6),
    SimtConfig(32, 128, 64, 4, 1.11, 1.85),
    SimtConfig(64, 64, 64, 5, 1.21, 1.6),
)
_NAMED = {chosen.name: chosen for chosen in CONFIGS}


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    name, _, splits = (config or configs(a, b)[0]).partition("_p")
    chosen = _NAMED[name]
    m, n, k = sizes(a, b)
    a, b = contiguous_rows(a), contiguous_rows(b)
    (load_a, a_stride), (load_b, b_stride) = operand_load(a), operand_load(b.t())
    template = f"{chosen.rows}, {chosen.columns}, {chosen.depth}, {chosen.stages}"
    operands: tuple[Any, ...]
    if load_b == TMA:
        b_map = cuda.tensor_map(b, (chosen.depth, chosen.columns), swizzle=0)
        if load_a == TMA:
            kernel = f"matmul_tma<{template}>"
            operands = cuda.tensor_map(a.t(), (chosen.depth, chosen.rows), swizzle=0), b_map
        else:
            kernel = f"matmul_tma_b<{template}, {load_a}>"
            operands = cuda.strided(a), a_stride, b_map
    else:
        load_a = MN_MAJOR if load_a == TMA else load_a
        kernel = f"matmul_cp_async<{template}, {load_a}, {load_b}>"
        operands = cuda.strided(a), a_stride, cuda.strided(b), b_stride
    rows, columns = chosen.tiles(m, n)
    shared = chosen.shared(4 * ((load_a == K_MAJOR) + (load_b == K_MAJOR)))
    processors, count = sm_count(a), min(int(splits or 1), cdiv(k, chosen.depth))
    split_tiles = rows * columns % processors if count > 1 else 0
    whole = rows * columns - split_tiles
    order = rows, columns, max(1, 1024 // chosen.rows)
    sums = c.new_empty(split_tiles * count * chosen.rows * chosen.columns) if split_tiles else None
    WARP_SPECIALISED[kernel][min(whole + split_tiles * count, processors), THREADS, shared](
        *operands, c if split_tiles else cuda.out(c), m, n, k, *order, sums, whole, count
    )
    if split_tiles:
        neighbours = 4 if n % 4 == 0 else 1
        items = split_tiles * chosen.rows * chosen.columns // neighbours
        groups = next((few for few in (1, 2, 4) if few * items >= 1024 * processors or 2 * few > count), 8)
        add = WARP_SPECIALISED[f"reduce_splits<{chosen.rows}, {chosen.columns}, {neighbours}>"]
        add[items * groups // 256, 256](sums, c, m, n, *order, whole, count, groups)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    return requires_hopper(a, "setmaxnreg and TMA exist there alone") or requires_k(a.shape[1]) or grid_of_tiles(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """``ranked`` for a and b on their GPU."""
    return ranked(*sizes(a, b), sm_count(a), loaded_by_tma(b))


def is_profitable(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True on a Hopper GPU if C has tiles of 64 x 128, with K split by 1024, for most SMs."""
    m, n, k = sizes(a, b)
    tiles = cdiv(m, 64) * cdiv(n, 128) * max(1, k // 1024)
    return a.is_cuda and 4 * tiles >= 3 * sm_count(a) and not limits(a, b)


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, blocks: int, b_by_tma: bool) -> tuple[str, ...]:
    """Every tile, also with the best number of splits, the fastest by ``clocks`` first; ``b_by_tma``: TMA loads B."""
    found = []
    for chosen in CONFIGS:
        most = max(1, min(MOST_SPLITS, k // 256))
        clocks = {splits: chosen.clocks(m, n, k, blocks, b_by_tma, splits) for splits in range(1, 1 + most)}
        found += [(clocks[splits], chosen.config(splits)) for splits in {1, min(clocks, key=clocks.__getitem__)}]
    return tuple(name for _, name in sorted(found))


def operand_load(lines: torch.Tensor) -> tuple[str, int]:
    """How an operand (extent, K) with a contiguous dimension is loaded, and the stride of the other dimension."""
    extent_stride, k_stride = lines.stride()
    if k_stride == 1 and (extent_stride != 1 or lines.size(0) == 1):
        return K_MAJOR, extent_stride
    aligned = k_stride % 4 == 0 and k_stride >= lines.size(0) and lines.data_ptr() % 16 == 0
    return TMA if aligned else MN_MAJOR, k_stride


def loaded_by_tma(b: torch.Tensor) -> bool:
    """True if TMA loads b, or the copy that ``contiguous_rows`` makes of it."""
    return operand_load(b.t())[0] == TMA if 1 in b.stride() else b.shape[1] % 4 == 0


def contiguous_rows(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix itself, or a copy if neither of its dimensions is contiguous."""
    return matrix if 1 in matrix.stride() else matrix.contiguous()
