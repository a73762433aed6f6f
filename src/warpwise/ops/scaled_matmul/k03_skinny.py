"""The launcher of k03, its limits and configurations: m counts columns of C, which are wgmma's m, and n counts rows.

``warps``: the warpgroups that divide the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.device.limits import HOPPER_SHARED
from warpwise.gemm import skinny
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.limits import GRID_Y, grid_y_limit, hopper_limits
from warpwise.gemm.operands import flags, on_16_bytes
from warpwise.gemm.skinny import groups, received, sides
from warpwise.gemm.time_model import Product
from warpwise.operation import cdiv
from warpwise.ops.scaled_matmul._shared import contiguous_scales, evict_first, k_major
from warpwise.ops.scaled_matmul.tables import FAMILIES

SKINNY = cuda.load(Path(__file__).with_suffix(".cu"))

ROOM = HOPPER_SHARED - 1024  # a block's dynamic shared memory, beside the kernel's static
MOST_STAGES, MOST_CONFIGS = 32, 20  # a stage has two barriers
WIDTHS = (8, 16, 32, 64, 128, 256)


def deep(k: int, columns: int, rows: int, sides: int, split: int, outer: int) -> GemmConfig:
    """Stages of 256 of K if two fit, else of 128; as many as cover DRAM's latency or a split of ``k``."""
    for depth in (256, 128) if k > 128 else (128,):
        one = GemmConfig(columns, rows, depth, 1, (sides,), cluster_splits=split, splits=outer)
        stage_bytes = (columns + rows) * depth
        most = (ROOM - shared_bytes(one) + stage_bytes) // stage_bytes
        if most > 1:
            break
    wanted = cdiv((96 if rows <= 16 else 128 if rows <= 64 else 227) * 1024, stage_bytes)
    needed = max(1, cdiv(cdiv(k, depth), split * outer))
    return one._replace(stages=min(MOST_STAGES, most, wanted, needed))


def producers(config: GemmConfig) -> int:
    """Producer threads: a warp, or a warpgroup, which deallocates registers (setmaxnreg)."""
    return 128 if groups(config) * sides(config) == 4 or config.n // sides(config) > 128 else 32


def shared_bytes(config: GemmConfig) -> int:
    """Bytes of shared memory: stages; 4 KiB per warpgroup and partial sums from other blocks, or what warpgroups wider
    than the tile read past the last stage."""
    behind = (groups(config) * 64 - config.m - config.n) * 128
    return config.ring_bytes(1, barriers=0) + max(behind, groups(config) * sides(config) * 4096 + received(config))


def kernel_name(config: GemmConfig, a: torch.Tensor, b: torch.Tensor, by_row: bool) -> str:
    numbers = groups(config), sides(config), config.n // sides(config), config.k // 128, config.cluster_splits
    tile = ", ".join(map(str, (*numbers, producers(config))))
    return f"scaled_matmul_skinny<{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}, {tile}, {flags(by_row)}>"


def launch(
    c: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    config: str | None = None,
) -> None:
    tile = GemmConfig.parse(config or default_config(a, b, scale_a, scale_b), "scaled_matmul")
    (m, k), n = a.shape, b.shape[1]
    left, right = k_major(a, b)
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    map_a, map_b = cuda.tensor_map(left, (tile.n, 128)), cuda.tensor_map(right, (tile.m, 128))
    across, down = cdiv(n, tile.m), cdiv(m, tile.n)
    threads = groups(tile) * sides(tile) * 128 + producers(tile)
    SKINNY[kernel_name(tile, a, b, by_row)][
        (across * tile.cluster_splits, down, tile.splits), threads, shared_bytes(tile)
    ](
        *(map_a, map_b, cuda.out(c), *skinny.reduction(c, tile, across * down), on_16_bytes(c), m, n, k),
        *(tile.m, tile.stages, evict_first(m, n, k), scale_a, scale_b),
    )


def limits(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    """The limits: a Hopper GPU, and a grid of the largest tiles."""
    return grid_y_limit(a.shape[0], 256, "rows of a") or hopper_limits(a, b)


def candidates(product: Product) -> Iterator[GemmConfig]:
    """Tiles of a warpgroup's 64 columns, and of as many as give each SM a tile, with K divided or not."""
    m, n, k, sms = product.m, product.n, product.k, product.sms
    for rows in (width for width in WIDTHS if width < 2 * max(m, 8) and cdiv(m, width) <= GRID_Y):
        tiles_m = max(1, cdiv(m, rows))
        for split in (2, 1):
            slots = max(1, sms // (split * tiles_m))
            filled = max(16, cdiv(max(n, 1), slots * 8) * 8)
            for columns in dict.fromkeys((64, min(filled, 32768 // rows, 256))):
                blocks = tiles_m * cdiv(max(n, 1), columns) * split
                room = min(sms // blocks, cdiv(k, 128 * split * 8))  # splits of eight k-tiles or more
                # A single warpgroup would multiply, wait and add one after the other.
                sides = 2 if rows >= 128 and columns <= 64 else 1
                for outer in dict.fromkeys(max(1, min(room, most)) for most in (1, 4, 16)):
                    yield deep(k, columns, rows, sides, split, outer)


configs = FAMILIES["k03_skinny"].configs(candidates, MOST_CONFIGS)


def default_config(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str:
    """The first configuration; on a CPU the first of whole warpgroups. The others multiply lines that no copy has
    loaded, which is harmless, since the products are not stored, but a finding of the emulator."""
    names = configs(a, b, scale_a, scale_b)
    on_cpu = a.device.type == "cpu"
    return next(name for name in names if not on_cpu or GemmConfig.parse(name).m % skinny.GROUP_COLUMNS == 0)
