"""Launches of GEMM kernels with cp.async, ldmatrix and mma.sync, as on Ampere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.device.limits import requires_ampere, shared_bytes
from warpwise.gemm.config import GemmConfig, names
from warpwise.gemm.limits import grid_of_tiles
from warpwise.gemm.operands import describe, flags, lines, on_16_bytes, sizes
from warpwise.gemm.time_model import MMA, MMA_TF32, Product
from warpwise.operation import sm_count


def sized(config: GemmConfig, dtype: torch.dtype) -> GemmConfig:
    """``config`` with k converted from bytes to elements."""
    return config._replace(k=config.k // dtype.itemsize)


def fitting(configs: Sequence[GemmConfig], a: torch.Tensor, b: torch.Tensor) -> list[GemmConfig]:
    """The configurations (k in bytes) that the tensors' GPU can run, fastest first; on a CPU all, the last first."""
    found = [sized(config, a.dtype) for config in configs]
    if a.is_cpu:
        return found[-1:] + found[:-1]
    fit = [config for config in found if config.ring_bytes(a.element_size(), 0, 0) <= shared_bytes(a)]
    kind, shape = describe(a, b)
    family = MMA_TF32 if a.dtype == torch.float32 else MMA
    return family.ordered(fit, Product.of(kind, shape, a.dtype, sm_count(a)), kind)


RASTER_ROWS = 8  # tile rows of a raster group


def resident_blocks(config: GemmConfig, size: int) -> int:
    """Resident blocks per SM, to which the kernel limits its registers: one for more than 128 x 128 sums, four for the
    smallest tile with k-tiles of 64 bytes, else two."""
    return 1 if config.m * config.n > 128 * 128 else 4 if config.m == config.n == 64 and config.k * size == 64 else 2


class MmaSync(NamedTuple):
    """A rung whose source includes ``sm80/gemm_mma_sync.cuh``, and its configurations, with k in bytes."""

    module: cuda.Module
    candidates: Sequence[GemmConfig]

    def configs(self, a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
        return names(fitting(self.candidates, a, b))

    def launch(self, c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, config: str | None = None) -> None:
        m, n, k = sizes(a, b)
        tile, size = GemmConfig.parse(config or self.configs(a, b)[0]), a.element_size()
        resident = resident_blocks(tile, size)
        left, right = lines(a, 1), lines(b, 0)
        numbers = ", ".join(map(str, (tile.m, tile.n, *tile.warps, tile.k * size, tile.stages, resident)))
        lines_of = f"{flags(left.k_major, right.k_major)}, {left.word}, {right.word}, {flags(on_16_bytes(c))}"
        rows, columns = tile.tiles(m, n)
        blocks = min(rows * columns, sm_count(a) * resident)
        kernel = self.module[f"matmul_mma_sync<{cuda.ctype(a.dtype)}, {cuda.ctype(c.dtype)}, {numbers}, {lines_of}>"]
        kernel[blocks, tile.threads, tile.ring_bytes(size, 0, 0)](
            *(cuda.strided(left.matrices), left.stride, cuda.strided(right.matrices), right.stride),
            *(cuda.out(c), m, n, k, rows, columns, RASTER_ROWS),
        )


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """Compute capability 8.0, and a grid of tiles."""
    return requires_ampere(a) or grid_of_tiles(a, b)
