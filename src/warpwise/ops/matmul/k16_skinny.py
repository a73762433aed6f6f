"""The launcher of k16, and its configurations: m counts columns of C, which are wgmma's m, and n counts rows.

A cluster is given by its blocks along rows and columns of C: blocks in a column share B, blocks in a row share A.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.device.limits import HOPPER_SHARED
from warpwise.gemm import skinny
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import addressable, flags, on_16_bytes, row_major_copy, sizes, tma_operand
from warpwise.gemm.skinny import owners, received, separate_buffer
from warpwise.gemm.time_model import Family, Geometry, Product
from warpwise.gemm.time_model import skinny as skinny_geometry
from warpwise.operation import cdiv

SKINNY = cuda.load(Path(__file__).with_suffix(".cu"))

BOX = 64  # elements in 128 bytes, a swizzled row
WIDTHS = (8, 16, 32, 64, 96, 128, 192, 256)  # rows of A: wgmma's n
MOST_STAGES = 8  # of a block
IN_FLIGHT = 21 << 20  # bytes in flight of all blocks
SMALL = 1 << 20  # elements of C up to which small tiles are candidates
WIDEST = 192 * 192  # elements of the largest tile: its sums are in registers
MOST_CONFIGS = 24


def ring(config: GemmConfig) -> int:
    return config.ring_bytes(2, barriers=0)


def shared_bytes(config: GemmConfig) -> int:
    return skinny.shared_bytes(config, ring(config))


def fits(config: GemmConfig) -> bool:
    """True if the stages fit into shared memory, and the epilogue's data (received sums, C) into the stages."""
    rows = config.n // owners(config)
    epilogue_bytes = (0 if separate_buffer(config, ring(config)) else received(config)) + config.m * cdiv(rows, 16) * 32
    whole = config.n % (8 * owners(config)) == 0 and config.n % (8 * config.cluster_shape[1]) == 0
    return whole and epilogue_bytes <= ring(config) - 1024 and shared_bytes(config) + 1024 <= HOPPER_SHARED


def resident_clusters(blocks: int, sms: int) -> int:
    """Clusters of ``blocks`` that run at once: 30 of four and 15 of eight on an H200's 132 SMs."""
    return max(1, sms // blocks if blocks <= 2 else sms * 10 // (11 * blocks))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tile = GemmConfig.parse(config or configs(a, b)[0])
    down, across = tile.cluster_shape
    maps, layouts = operand_maps(a, b, tile)
    tiles_m = cdiv(m, tile.n * down)
    tiles = tiles_m * cdiv(n, tile.m * across) * down * across
    kernel = SKINNY[kernel_name(a, tile, layouts)]
    kernel[tiles * tile.splits * tile.cluster_splits, 2 * tile.m + 32, shared_bytes(tile)](
        *maps, cuda.out(c), *skinny.reduction(c, tile, tiles), on_16_bytes(c), m, n, k, tiles_m, tile.splits
    )


def kernel_name(a: torch.Tensor, config: GemmConfig, layouts: str) -> str:
    down, across = config.cluster_shape
    tile = f"{cuda.ctype(a.dtype)}, {config.m // 64}, {config.n}, {layouts}, {config.k // BOX}, {config.stages}"
    if config.cluster_splits * down * across == 1:
        return f"matmul_skinny_no_cluster<{tile}>"
    shared, separate = "b" if down > 1 else "a" if across > 1 else "nothing", separate_buffer(config, ring(config))
    return f"matmul_skinny<{tile}, {config.cluster_splits}, {flags(separate)}, Shared::{shared}>"


def operand_maps(
    a: torch.Tensor, b: torch.Tensor, tile: GemmConfig
) -> tuple[tuple[cuda.TensorMap, cuda.TensorMap], str]:
    """Tensor maps of a and b, of halves of a box for the operand that a pair shares, and for each if it is K-major.

    L2 promotion is 256 bytes, but 64 where many rows of a load b and rows do not begin on 256 bytes: 6 % faster at
    1000 x 3000 x 776 on an H200.
    """
    down, across = tile.cluster_shape
    (read_a, a_mn_major), (read_b, b_k_major) = tma_operand(a), tma_operand(b)
    if a_mn_major and tile.n % BOX:
        read_a, a_mn_major = row_major_copy(a), False
    ragged = a.shape[0] > 256 and any(matrix.stride(0) % (2 * BOX) for matrix in (read_a, read_b))
    promotion = 64 if ragged else 256
    a_map = cuda.tensor_map(read_a, ((BOX if a_mn_major else tile.n) // across, BOX), promotion=promotion)
    b_map = cuda.tensor_map(read_b, ((tile.m if b_k_major else BOX) // down, BOX), promotion=promotion)
    return (a_map, b_map), flags(not a_mn_major, b_k_major)


def candidates(product: Product) -> list[GemmConfig]:
    """Tiles that hold all rows of A, or a part of many rows, in pairs or not, with K whole or divided to fill the GPU.

    Each is listed for one block per SM and for two, with stages of 64 of K and, for 64 rows or more, of 128.
    """
    m, n, k, sms = product.m, product.n, product.k, product.sms
    widest = next((width for width in WIDTHS if width >= m), WIDTHS[-1])
    least, splits = 32 if m * n <= SMALL else 96, [8, 4, 2, 1]
    heights = {width for width in WIDTHS if width == widest or least <= width < widest}
    if m <= 256 and 8 * cdiv(n, BOX) >= 3 * sms:  # few rows, whose halves of K fill the GPU
        heights, splits = {widest, min(widest, 128)}, [2, 1]
    found = []
    for rows in sorted(heights):
        pairs = [(1, 1), *([(2, 1)] if m > rows else []), *([(1, 2)] if n > BOX and rows >= 64 else [])]
        for columns, split, blocks_of_pair, deep, blocks in itertools.product(
            (64, 128, 192), splits, pairs, (1, 2), (1, 2)
        ):
            cluster = split * max(blocks_of_pair)
            if cluster > 8 or (cluster > 2 and blocks > 1) or (deep > 1 and rows < 64) or columns * rows > WIDEST:
                continue
            down = max(1, cdiv(m, rows * blocks_of_pair[0]))
            across = max(1, cdiv(n, columns * blocks_of_pair[1]))
            fill = min(resident_clusters(cluster, sms) * blocks // (down * across), cdiv(k, BOX) // (4 * split))
            for outer in sorted({1, max(1, fill)}):
                tile = GemmConfig(
                    columns, rows, BOX * deep, 1, (), blocks_of_pair if max(blocks_of_pair) > 1 else (), split, outer
                )
                many = min(down * across * outer * cluster, sms * blocks)
                for extra in sorted({0, received(tile)}):  # room for stages alone, or for stages and received sums
                    tile = tile._replace(stages=stages(tile, m, many, HOPPER_SHARED // blocks - 2048 - extra))
                    if tile.stages >= 4 and fits(tile) and cdiv(k, tile.k) >= split * outer:
                        found.append(tile)
    return found or [GemmConfig(64, widest, BOX, 4)]


def candidates_mn_major(product: Product) -> list[GemmConfig]:
    """The tiles for a column-major a, whose boxes have 64 rows."""
    return [tile for tile in candidates(product._replace(m=max(BOX, product.m))) if tile.n % BOX == 0]


def _in_place(config: str, kind: str) -> bool:
    """True if both operands are read in place: they are aligned, and a is row-major or is read in boxes of 64 rows."""
    return "unaligned" not in kind and (kind[0] == "n" or GemmConfig.parse(config).n % BOX == 0)


def _geometry(config: GemmConfig) -> Geometry:
    """A split has four k-tiles or more, so that one block may add up to 64 splits of a tile."""
    geometry, bytes_of_split = skinny_geometry(config), 4 * config.m * config.n // owners(config)
    return geometry._replace(last_adds=config.splits * bytes_of_split if config.splits > 1 else 0)


FAMILY = Family(_geometry, replayed=_in_place)
K_MAJOR, MN_MAJOR = (FAMILY.configs(tiles, MOST_CONFIGS) for tiles in (candidates, candidates_mn_major))


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """The fastest candidates; before those that copy a column-major a, those that read it in place."""
    in_place = MN_MAJOR(a, b) if addressable(a) is None and addressable(a.t()) is not None else ()
    return tuple(dict.fromkeys((*in_place, *K_MAJOR(a, b))))


def stages(tile: GemmConfig, m: int, blocks: int, room: int) -> int:
    """Pipeline stages in ``room`` bytes, as measured on an H200.

    Up to 256 rows, B is read once, and 64 or 80 KB of it in flight per block are enough; if tiles share B and K is
    divided, about 21 MB in flight in all ``blocks``.
    """
    stage_bytes = (tile.m + tile.n) * 2 * tile.k
    most = min(MOST_STAGES, room // stage_bytes)
    if m <= 256:
        most = min(most, max(4, (64 if tile.n <= 32 else 80) * 1024 // (tile.m * 2 * tile.k)))
    if tile.cluster_splits * tile.splits > 1 and tile.n <= min(128, m - 1):
        most = min(most, IN_FLIGHT // (blocks * stage_bytes))
    return most
