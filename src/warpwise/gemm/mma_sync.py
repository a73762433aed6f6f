"""Launches of GEMM kernels with cp.async, ldmatrix and mma.sync, as on Ampere."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm.limits import (
    HOPPER_SHARED,
    grid_of_tiles,
    grid_y_of,
    requires_ampere,
    shared_bytes,
)
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count


class MmaConfig(NamedTuple):
    """A block's tile, a warp's tile, the bytes of k in a stage, pipeline stages, blocks per SM."""

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


class Operand(NamedTuple):
    """An operand as the kernel loads it: ``stride`` elements between lines, ``word`` bytes per cp.async."""

    matrix: torch.Tensor
    k_major: bool
    stride: int
    word: int


def operand(matrix: torch.Tensor, k_dimension: int) -> Operand:
    """``matrix`` with k as dimension ``k_dimension``: in place if one of its dimensions is contiguous, else copied."""

    def pitch(at: int) -> int:  # PyTorch may report any stride for a dimension of size 1
        return matrix.stride(at) if matrix.shape[at] > 1 else matrix.shape[1 - at]

    dense = [at for at in (1, 0) if (matrix.stride(at) == 1 or matrix.shape[at] == 1) and pitch(1 - at) < 2**31]
    if not dense:
        matrix, dense = matrix.contiguous(), [1]
    stride = pitch(1 - dense[0])
    aligned = matrix.data_ptr() | matrix.element_size() * (stride | matrix.shape[dense[0]])
    word = 16 if aligned % 16 == 0 else 4 if aligned % 4 == 0 else matrix.element_size()
    return Operand(matrix, dense[0] == k_dimension, stride, word)


# The rate of an SM relative to the largest tiles', by the elements of a tile: with one tile to compute, and with more.
# int8, bfloat16 and TF32 on an H200.
RATES = {128 * 256: (1.0, 1.0), 128 * 128: (0.95, 1.0), 64 * 128: (0.62, 0.83), 64 * 64: (0.38, 0.68)}


@functools.lru_cache(maxsize=1024)
def ordered(configs: tuple[MmaConfig, ...], m: int, n: int, sms: int, room: int) -> tuple[MmaConfig, ...]:
    """Those that fit into ``room`` bytes of shared memory, the fastest first; the smallest first if ``sms`` is 0."""
    fit = [config for config in configs if config.shared <= room]

    def time(config: MmaConfig) -> float:
        tiles = cdiv(cdiv(m, config.rows) * cdiv(n, config.columns), sms)  # of an SM
        size = config.rows * config.columns
        return tiles * size / RATES[size][tiles > 1]

    best = min(fit, key=time) if sms else fit[-1]
    return best, *(config for config in fit if config != best)


def fitting(configs: tuple[MmaConfig, ...], a: torch.Tensor, b: torch.Tensor) -> tuple[MmaConfig, ...]:
    """The configurations that the tensors' GPU can run, the default first; on a CPU the smallest is the default."""
    sms, room = (0, HOPPER_SHARED) if a.is_cpu else (sm_count(a), shared_bytes(a))
    return ordered(configs, a.shape[0], b.shape[1], sms, room)


def names(configs: tuple[MmaConfig, ...], a: torch.Tensor, b: torch.Tensor) -> Sequence[str]:
    """The names of ``fitting``."""
    return [config.name(a.dtype) for config in fitting(configs, a, b)]


def fills_gpu(a: torch.Tensor, tiles: int) -> bool:
    """True if each SM of a GPU gets a tile; false on a CPU, where small tiles run emulated."""
    return not a.is_cpu and tiles >= sm_count(a)


def launch(
    module: cuda.Module,
    types: Sequence[str],
    configs: tuple[MmaConfig, ...],
    persistent: bool,
    c: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    config: str | None,
) -> None:
    """Launch ``matmul_mma_sync<types..., config, layouts>``; ``persistent`` blocks compute several tiles."""
    m, n, k = sizes(a, b)
    chosen = next(each for each in fitting(configs, a, b) if config in (None, each.name(a.dtype)))
    left, right = operand(a, 1), operand(b, 0)
    major = [str(each.k_major).lower() for each in (left, right)]
    aligned = str(c.shape[1] * c.element_size() % 16 == 0 and c.data_ptr() % 16 == 0).lower()
    template = [*types, *map(str, chosen), *major, str(left.word), str(right.word), aligned]
    tiles = cdiv(m, chosen.rows), cdiv(n, chosen.columns)
    blocks = tiles[0] * tiles[1]
    if persistent:
        blocks = min(blocks, sm_count(a) * chosen.blocks)
    kernel = module[f"matmul_mma_sync<{', '.join(template)}>"]
    kernel[blocks, chosen.threads, chosen.shared](
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


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """Compute capability 8.0, and a grid of tiles."""
    return requires_ampere(a) or grid_of_tiles(a, b)


_WMMA_GRID = grid_y_of(64, dimension=0)


def wmma_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """Compute capability 8.0, and a grid whose y counts rows of 64 x 64 tiles."""
    return requires_ampere(a) or _WMMA_GRID(a, b)
