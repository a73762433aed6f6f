"""Operands of the warp-specialised float32 kernels of ``sm90/gemm_simt.cuh``, and the kernel that loads them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.device.limits import requires_hopper
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.limits import grid_of_tiles, requires_k

TMA, MN_MAJOR, K_MAJOR = (f"warpwise::{name}" for name in ("kTma", "kMnMajor", "kKMajor"))


class Operand(NamedTuple):
    """An operand (extent, K) or (matrices, extent, K): the load instructions, and the strides of lines and matrices."""

    lines: torch.Tensor
    load: str
    stride: int
    matrix: int = 0

    @property
    def batched(self) -> bool:
        return self.lines.dim() == 3

    def by_tma(self, depth: int, extent: int) -> tuple[Any, ...]:
        """The kernel's arguments: a tensor map of (matrices, K, extent) with boxes of one matrix; batched, the step
        from matrix to matrix, 0 for one matrix."""
        transposed = self.lines.mT
        if not self.batched:
            return (cuda.tensor_map(transposed, (depth, extent), swizzle=0),)
        strides = self.matrix or self.stride, self.stride, 1
        boxes = transposed.as_strided(transposed.shape, strides)
        return cuda.tensor_map(boxes, (1, depth, extent), swizzle=0), int(self.matrix > 0)

    def by_words(self) -> tuple[Any, ...]:
        """The kernel's arguments for loads of words by cp.async."""
        return cuda.strided(self.lines), self.stride, *([self.matrix] if self.batched else [])


def operand(lines: torch.Tensor, matrix: int = 0) -> Operand:
    """``lines`` have a contiguous dimension among the last two; ``matrix`` is the stride of matrices, 0 for one."""
    (extent, _), (along_extent, along_depth) = lines.shape[-2:], lines.stride()[-2:]
    if along_depth == 1 and (along_extent != 1 or extent == 1):
        return Operand(lines, K_MAJOR, along_extent, matrix)
    aligned = along_depth % 4 == 0 and along_depth >= extent and lines.data_ptr() % 16 == 0 and matrix % 4 == 0
    return Operand(lines, TMA if aligned else MN_MAJOR, along_depth, matrix)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A Hopper GPU, and a grid of tiles."""
    reason = requires_hopper(a, "other GPUs have no setmaxnreg and no TMA") or requires_k(a.shape[-1])
    return reason or grid_of_tiles(a, b)


def kernel(name: str, tile: GemmConfig, a: Operand, b: Operand) -> tuple[str, tuple[Any, ...]]:
    """The C++ name of the kernel ``name`` that loads both operands, and its arguments for them."""
    template = f"{tile.m}, {tile.n}, {tile.k}, {tile.stages}"
    if b.load != TMA:
        load_a = MN_MAJOR if a.load == TMA else a.load
        return f"{name}_cp_async<{template}, {load_a}, {b.load}>", (*a.by_words(), *b.by_words())
    boxes = b.by_tma(tile.k, tile.n)
    if a.load != TMA:
        return f"{name}_tma_b<{template}, {a.load}>", (*a.by_words(), *boxes)
    return f"{name}_tma<{template}>", (*a.by_tma(tile.k, tile.m), *boxes)
