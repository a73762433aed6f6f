"""The launcher of k03, its limits and configurations."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.device.limits import requires_hopper
from warpwise.gemm import simt
from warpwise.gemm.config import GemmConfig, names, parsed
from warpwise.gemm.limits import requires_k
from warpwise.operation import cdiv, sm_count
from warpwise.ops.grouped_matmul.forward._triton import expected_tiles, tiles_limits

WARP_SPECIALISED = cuda.load(Path(__file__).with_suffix(".cu"))
THREADS, STAGING = 256, 4 * 8 * 80 * 4  # four producer warps, four consumers; bytes of staged sums
CONFIGS = parsed("64x128x16_s8", "64x64x32_s5", "128x128x8_s12", "128x64x16_s8")
ENDS = 1500  # elements of a tile that take as long as the start and the end of a tile
ALONE = 0.65  # the time of one block on an SM, relative to that of two


def limits(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    if b.shape[0] == 0:
        return "takes 1 group or more, not 0"
    return requires_hopper(a, "other GPUs have no setmaxnreg") or requires_k(a.shape[1]) or tiles_limits(a, b, offsets)


def work(config: GemmConfig, a: torch.Tensor, b: torch.Tensor) -> float:
    """The estimated time on the busiest SM, in elements of pairs of tiles: an SM computes two tiles at a time."""
    blocks = cdiv(expected_tiles(config.m, config.n, a, b), sm_count(a))
    return (config.m * config.n + ENDS) * (blocks // 2 + ALONE * (blocks % 2))


def configs(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    return names(sorted(CONFIGS, key=lambda config: work(config, a, b)))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or configs(a, b, offsets)[0])
    (rows, k), (groups, _, n) = a.shape, b.shape
    lines = a if 1 in a.stride() else a.contiguous()
    left = simt.operand(lines)
    if left.load == simt.TMA:
        left = left._replace(load=simt.MN_MAJOR)
    matrices = b.mT if 1 in b.stride()[1:] else b.contiguous().mT
    kernel, operands = simt.kernel("grouped_matmul", tile, left, simt.operand(matrices, matrices.stride(0)))
    columns = cdiv(n, tile.n)
    blocks = min((cdiv(rows, tile.m) + groups + 1) * columns, 2 * sm_count(a))
    shared = tile.ring_bytes(4, alignment=128, padding=8) + STAGING
    WARP_SPECIALISED[kernel][blocks, THREADS, shared](
        *operands, cuda.out(c), offsets.contiguous(), groups, rows, n, k, columns, max(1, 1024 // tile.m)
    )
