"""Launchers of the kernels that feed the tensor cores as Ampere does: wmma, mma.sync."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops._tiles import shared_bytes
from warpwise.ops.matmul._shared import HERE, grid_of, grid_of_tiles, sizes

WMMA = cuda.load(HERE / "k14_wmma.cu")
MMA_SYNC = cuda.load(HERE / "k15_mma_sync.cu")


def fills(a: torch.Tensor, tiles: int, blocks: int) -> bool:
    """Whether there are tiles for that many blocks on each SM of a GPU; an emulated launch takes small tiles."""
    return a.is_cuda and tiles >= multiprocessors(a) * blocks


def wmma(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    depth, sums = (64, "int") if a.dtype == torch.int8 else (32, "float")
    # 128 x 128 a block, 32 x 64 a warp; a quarter of that where the large tiles would not fill the GPU.
    large = fills(a, cdiv(m, 128) * cdiv(n, 128), 1)
    side, tiles, threads = (128, f"128, 128, {depth}, 32, 64", 256) if large else (64, f"64, 64, {depth}, 32, 32", 128)
    unit = 16 // a.element_size()
    aligned = k % unit == 0 and n % unit == 0 and a.data_ptr() % 16 == 0 and b.data_ptr() % 16 == 0
    types = f"{cuda.ctype(a.dtype)}, {sums}, {cuda.ctype(c.dtype)}"
    kernel = WMMA[f"matmul_wmma<{types}, {tiles}, {str(aligned).lower()}>"]
    kernel[(cdiv(n, side), cdiv(m, side)), threads](a, b, cuda.out(c), m, n, k)


class Tiling(NamedTuple):
    """A block's tile, a warp's, the bytes of k in a slice, slices in flight, blocks an SM."""

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int
    depth: int
    stages: int
    blocks: int

    def name(self, dtype: torch.dtype) -> str:
        """Sizes in elements: 128x256x64_w64x64_s4."""
        k = self.depth // dtype.itemsize
        return f"{self.rows}x{self.columns}x{k}_w{self.warp_rows}x{self.warp_columns}_s{self.stages}"

    @property
    def threads(self) -> int:
        return self.rows // self.warp_rows * (self.columns // self.warp_columns) * 32

    @property
    def shared(self) -> int:
        return self.stages * (self.rows + self.columns) * self.depth


TILINGS = (
    Tiling(128, 256, 64, 64, 128, 3, 1),
    Tiling(128, 256, 64, 64, 128, 4, 1),
    Tiling(256, 128, 64, 64, 128, 4, 1),
    Tiling(128, 128, 64, 64, 128, 3, 2),
    Tiling(128, 128, 64, 64, 64, 5, 2),
    Tiling(64, 128, 32, 64, 128, 3, 2),
    Tiling(64, 64, 32, 32, 128, 3, 2),
    Tiling(64, 64, 32, 32, 64, 4, 4),
)


class Lines(NamedTuple):
    """A factor as the kernel walks it: along k or across it, lines `stride` elements apart, `word` bytes a copy."""

    matrix: torch.Tensor
    along: bool
    stride: int
    word: int


def lines(matrix: torch.Tensor, depth: int) -> Lines:
    """``matrix`` with k as its dimension number ``depth``, as it lies if one of its dimensions is dense, else copied."""

    def step(at: int) -> int:  # from one line to the next; where there is one alone PyTorch may say anything
        return matrix.stride(at) if matrix.shape[at] > 1 else matrix.shape[1 - at]

    dense = [at for at in (1, 0) if (matrix.stride(at) == 1 or matrix.shape[at] == 1) and step(1 - at) < 2**31]
    if not dense:
        matrix, dense = matrix.contiguous(), [1]
    stride = step(1 - dense[0])
    aligned = matrix.data_ptr() | matrix.element_size() * (stride | matrix.shape[dense[0]])
    word = 16 if aligned % 16 == 0 else 4 if aligned % 4 == 0 else matrix.element_size()
    return Lines(matrix, dense[0] == depth, stride, word)


# What an SM multiplies beside the largest tiles, by a tile's elements: with one tile to go through, and with more. int8,
# bfloat16 and TF32 on an H200.
RATES = {128 * 256: (1.0, 1.0), 128 * 128: (0.95, 1.0), 64 * 128: (0.62, 0.83), 64 * 64: (0.38, 0.68)}


@functools.lru_cache(maxsize=1024)
def ordered(tilings: tuple[Tiling, ...], m: int, n: int, processors: int, room: int) -> tuple[Tiling, ...]:
    """Those that ``room`` bytes of shared memory hold, the one whose tiles a GPU is through with soonest first; the
    smallest on a CPU."""
    fit = [tiling for tiling in tilings if tiling.shared <= room]

    def time(tiling: Tiling) -> float:
        tiles = cdiv(cdiv(m, tiling.rows) * cdiv(n, tiling.columns), processors)  # of an SM
        size = tiling.rows * tiling.columns
        return tiles * size / RATES[size][tiles > 1]

    best = min(fit, key=time) if processors else fit[-1]
    return best, *(tiling for tiling in fit if tiling != best)


def fitting(tilings: tuple[Tiling, ...], a: torch.Tensor, b: torch.Tensor) -> tuple[Tiling, ...]:
    """The tilings that the tensors' GPU can run, its own choice for these sizes first."""
    processors, room = (multiprocessors(a), shared_bytes(a)) if a.is_cuda else (0, 227 * 1024)
    return ordered(tilings, a.shape[0], b.shape[1], processors, room)


def aligned_rows(c: torch.Tensor) -> str:
    """Whether c's rows lie on 16 bytes, as a template argument."""
    return str(c.shape[1] * c.element_size() % 16 == 0 and c.data_ptr() % 16 == 0).lower()


def names(tilings: tuple[Tiling, ...], a: torch.Tensor, b: torch.Tensor) -> Sequence[str]:
    """The configurations of a rung with these tilings."""
    return [tiling.name(a.dtype) for tiling in fitting(tilings, a, b)]


def launch(
    module: cuda.Module, types: Sequence[str], tilings: tuple[Tiling, ...], stays: bool,
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None,
) -> None:  # fmt: skip
    """Launch ``module``'s ``matmul_mma_sync<types..., tiling, layouts>``; ``stays``: a block goes from tile to tile."""
    m, n, k = sizes(a, b)
    tiling = next(each for each in fitting(tilings, a, b) if config in (None, each.name(a.dtype)))
    left, right = lines(a, 1), lines(b, 0)
    along = [str(factor.along).lower() for factor in (left, right)]
    arguments = [*types, *map(str, tiling), *along, str(left.word), str(right.word), aligned_rows(c)]
    tiles = cdiv(m, tiling.rows), cdiv(n, tiling.columns)
    blocks = tiles[0] * tiles[1]
    if stays:
        blocks = min(blocks, multiprocessors(a) * tiling.blocks)
    module[f"matmul_mma_sync<{', '.join(arguments)}>"][blocks, tiling.threads, tiling.shared](
        cuda.strided(left.matrix),
        left.stride,
        cuda.strided(right.matrix),
        right.stride,
        cuda.out(c),
        m,
        n,
        k,
        *tiles,
        8,
    )


def mma_sync_configs(a: torch.Tensor, b: torch.Tensor) -> Sequence[str]:
    return names(TILINGS, a, b)


def mma_sync(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, config: str | None = None) -> None:
    launch(MMA_SYNC, (cuda.ctype(a.dtype), cuda.ctype(c.dtype)), TILINGS, True, c, a, b, config)


def too_old(a: torch.Tensor) -> str | None:
    """Why the tensor's GPU has no asynchronous copies and no products of these types."""
    if a.is_cuda and torch.cuda.get_device_capability(a.device) < (8, 0):
        return "takes a GPU of compute capability 8.0 or later"
    return None


def ampere(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits of k15."""
    return too_old(a) or grid_of_tiles(a, b)


def wmma_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits of k14: 64 x 64 tiles, whose rows grid.y counts."""
    return too_old(a) or grid_of(64, dimension=0)(a, b)
