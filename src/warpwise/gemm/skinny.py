"""Code that the launchers of ``sm90/gemm_skinny.cuh``, the kernel for few rows or few tiles, share.

In its configurations, m counts columns of C, which are wgmma's m, and n counts rows; ``warps`` are the warpgroups that
divide the rows.
"""

from __future__ import annotations

import torch

from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.device.limits import HOPPER_SHARED
from warpwise.gemm.config import GemmConfig
from warpwise.operation import cdiv

GROUP_COLUMNS = 64  # columns of C that a warpgroup computes


def groups(tile: GemmConfig) -> int:
    """Warpgroups along the columns of C."""
    return cdiv(tile.m, GROUP_COLUMNS)


def sides(tile: GemmConfig) -> int:
    """Warpgroups along the rows of C."""
    return tile.warps[0] if tile.warps else 1


def owners(tile: GemmConfig) -> int:
    """Blocks of a cluster that each reduce and store some of the tile's rows, in 8-row core matrices."""
    return min(tile.cluster_splits, tile.n // sides(tile) // 8)


def received(tile: GemmConfig) -> int:
    """Bytes of partial sums that a block receives from the others of its cluster."""
    return (tile.cluster_splits - 1) * groups(tile) * GROUP_COLUMNS * tile.n * 4 // owners(tile)


def separate_buffer(tile: GemmConfig, ring: int) -> bool:
    """True if received sums have shared memory of their own, in addition to the ``ring`` bytes of the stages: a block
    then does not wait until the other blocks have read their stages. False if it would reduce the resident blocks."""
    blocks = HOPPER_SHARED // (ring + 1024)
    return tile.cluster_splits > 1 and blocks * (ring + received(tile) + 1024) <= HOPPER_SHARED


def shared_bytes(tile: GemmConfig, ring: int) -> int:
    """Bytes of shared memory of the stages, and of received sums."""
    return ring + (received(tile) if separate_buffer(tile, ring) else 0)


def reduction(c: torch.Tensor, tile: GemmConfig, tiles: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The kernel's ``partials`` and ``semaphores``: None unless K is split through global memory."""
    if tile.splits == 1:
        return None, None
    sums = tiles * tile.splits * groups(tile) * GROUP_COLUMNS * tile.n
    return c.new_empty(sums, dtype=torch.float32), semaphores(c, tiles * owners(tile))
