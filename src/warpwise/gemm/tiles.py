"""Tiles of Triton kernels that load their operands through pointers."""

from __future__ import annotations

from typing import NamedTuple

import torch

from warpwise.gemm.limits import shared_bytes
from warpwise.operation import cdiv, sm_count


class Tile(NamedTuple):
    """A configuration: the tile of the result (m, n), the k of a stage, stages of the pipeline, warps of a program."""

    m: int
    n: int
    k: int
    stages: int
    warps: int

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k}_s{self.stages}_w{self.warps}"

    @property
    def bytes(self) -> int:
        """Shared memory of all stages, with 2-byte elements."""
        return 2 * self.stages * self.k * (self.m + self.n)


SMALL, FLOAT32 = Tile(64, 64, 64, 4, 4), Tile(64, 64, 32, 3, 4)
LARGE = (Tile(128, 256, 64, 3, 8), Tile(128, 128, 64, 4, 8))


def configs(tensor: torch.Tensor, m: int, n: int) -> tuple[str, ...]:
    """Tiles for an (m, n) result of ``tensor``'s dtype on its GPU, the default first.

    float32 products run on the CUDA cores, with small tiles. Large tiles come first where they fill the GPU and fit its
    shared memory.
    """
    if tensor.dtype == torch.float32:
        return (FLOAT32.name,)
    large = [tile for tile in LARGE if tile.bytes <= shared_bytes(tensor)]
    fills = cdiv(m, LARGE[0].m) * cdiv(n, LARGE[0].n) >= sm_count(tensor)
    ordered = [*large, SMALL] if fills and LARGE[0] in large else [SMALL, *large]
    return tuple(tile.name for tile in ordered)


def named(name: str) -> Tile:
    """The tile called ``name``."""
    return next(tile for tile in (*LARGE, SMALL, FLOAT32) if tile.name == name)
