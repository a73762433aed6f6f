"""Launches of the kernels of ``sm80/gemm_split_k.cuh``: few tiles, with K divided between the blocks of a cluster."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.device.limits import even_shared, requires_ampere, requires_hopper
from warpwise.gemm.config import GemmConfig, names, parsed
from warpwise.gemm.limits import GRID_Y, tiles_limit
from warpwise.gemm.operands import Lines, Shape, describe, flags, lines
from warpwise.gemm.time_model import CLUSTER_SPLIT_K, MMA_TF32, Product
from warpwise.operation import Rung, cdiv, make_rung, sm_count

IDEA = "few tiles: the blocks of a cluster divide K; any layout and alignment"
SPLITS = (1, 2, 4, 8, 16)  # blocks of a cluster: 16 on Hopper, 8 are portable
NEIGHBOURS = 2  # SMs that share a texture processing cluster; larger clusters may leave SMs of a GPC idle
MIN_K = 32  # of a split
SIMT = parsed(
    "32x32x32_w16x32_s4", "32x32x32_w16x32_s8", "32x64x32_w16x32_s4", "32x64x32_w16x32_s8", "64x64x32_w32x32_s4",
    "16x128x32_w16x32_s4", "128x16x32_w32x16_s4", "128x64x16_w32x32_s4", "128x128x16_w32x64_s4",
)  # fmt: skip
K_GROUPS = parsed("64x32x128_w64x32x8_s2", "32x32x128_w32x32x8_s2")  # both operands K-major, aligned to 16 bytes
THREE_TF32 = parsed(  # tensor cores, with float32 accuracy
    "64x64x32_w32x32_s4_x3", "64x128x32_w32x64_s3_x3", "32x64x32_w32x32_s4_x3",
)  # fmt: skip
UNDIVIDED = K_GROUPS[0].name  # without splits of K: with splits, K_GROUPS[1] is faster, of which an SM holds more warps
MOST_BLOCKS = 8  # for each SM and tile: smaller tiles, with more blocks, are not candidates
HALF = parsed(
    "64x64x64_w32x32_s4", "64x64x64_w32x32_s8", "64x64x64_w16x32_s4", "128x64x64_w32x32_s4", "64x128x64_w32x32_s4",
    "128x128x64_w64x32_s3",
)  # fmt: skip
TF32 = parsed("64x64x32_w32x32_s4", "64x64x32_w32x32_s8", "128x64x32_w32x32_s4", "64x128x32_w32x32_s4")


def shared(tile: GemmConfig, size: int, tensor_cores: bool) -> int:
    """Bytes of shared memory: the stages, or the sums, which reuse their memory."""
    if tile.k_groups > 1:
        sums = tile.m * (tile.n + 8) + tile.k_groups * tile.m * (tile.n + 4)
        return size * max(tile.stages * (tile.m + tile.n) * (tile.k + 4), sums)
    padding = 0 if tensor_cores or tile.products > 1 else 8  # of the lines of both operands
    return max(tile.ring_bytes(size, alignment=0, barriers=0, padding=padding), tile.m * (tile.n + 8) * 4)


class Configured(NamedTuple):
    """A kernel with its template arguments and grid; its operands, and the arguments m, n, k and tile rows."""

    launch: Any
    left: Lines
    right: Lines
    sizes: tuple[int, int, int, int]


def configured(
    module: cuda.Module, kernel: str, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, config: str,
    tensor_cores: bool, *more: Any,
) -> Configured:  # fmt: skip
    """``kernel`` of ``module`` for c = a b. ``more``: further template arguments."""
    tile, shape, size = GemmConfig.parse(config), Shape.of(a, b), c.element_size()
    # SimtMainLoop transposes K-major operands while it copies them to shared memory, 4 bytes at a time.
    transposes = not tensor_cores and tile.k_groups == tile.products == 1
    left, right = (one._replace(word=4) if transposes and one.k_major else one for one in (lines(a, 1), lines(b, 0)))
    aligned = shape.n % 4 == 0 and c.data_ptr() % (4 * size) == 0
    loop = f"MmaMainLoop<{cuda.ctype(c.dtype)}, " if tensor_cores else "SimtMainLoop<"
    if tile.products > 1:
        loop = "ThreeTf32MainLoop<"
    numbers = ", ".join(map(str, (tile.m, tile.n, tile.k, *tile.warps, tile.stages)))
    if tile.k_groups > 1:
        loop = f"KGroupsMainLoop<{numbers}>"
    else:
        loop += f"{numbers}, {flags(left.k_major, right.k_major)}, {left.word}, {right.word}>"
    template = ", ".join(map(str, (f"warpwise::gemm::{loop}", flags(aligned), tile.cluster_splits, *more)))
    tiles_m, tiles_n = tile.tiles(shape.m, shape.n)
    grid = tiles_m * tiles_n * tile.cluster_splits, shape.batch
    memory = shared(tile, size, tensor_cores)
    if tile.cluster_splits <= NEIGHBOURS:
        memory = even_shared(c, grid[0] * grid[1], memory)
    launch = module[f"{kernel}<{template}>"][grid, tile.threads, memory]
    return Configured(launch, left, right, (shape.m, shape.n, shape.k, tiles_m))


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits: compute capability 8.0, and the size of the grid."""
    m, n, k = (shape := Shape.of(a, b))[1:]
    if shape.batch > GRID_Y:
        return f"takes up to {GRID_Y} matrices (grid.y is 16 bits), not {shape.batch}"
    return requires_ampere(a) or tiles_limit(cdiv(m, 64) * cdiv(n, 64), m=m, n=n, k=k)


def configs(a: torch.Tensor, b: torch.Tensor, tf32: bool = False) -> tuple[str, ...]:
    """Each tile with the splits of K that give between half a block and four blocks per SM."""
    tiles = TF32 if tf32 else SIMT if a.dtype == torch.float32 else HALF
    # K_GROUPS copy operands that are K-major and aligned to 16 bytes.
    if tiles is SIMT and a.dim() == 2 and all(one.k_major and one.word == 16 for one in (lines(a, 1), lines(b, 0))):
        tiles = (*SIMT, *K_GROUPS)
    added = THREE_TF32 if a.dtype == torch.float32 and not tf32 else ()  # after those that the model orders
    if a.is_cpu:
        return names((*tiles, *added))
    of_cluster = [split for split in SPLITS if split == 1 or requires_hopper(a) is None]
    kind, sizes = describe(a, b)
    product = Product.of(kind, sizes, a.dtype, sm_count(a))
    family = MMA_TF32 if tf32 else CLUSTER_SPLIT_K
    ordered = family.ordered(candidates(tiles, of_cluster, product), product, kind)
    return names((*ordered, *(candidates(added, of_cluster, product) if added else ())))


def candidates(tiles: Sequence[GemmConfig], of_cluster: Sequence[int], product: Product) -> list[GemmConfig]:
    """Tiles of which C needs up to ``MOST_BLOCKS`` for each SM, with each number of splits for half to four blocks.

    Without such a number, a tile has the most splits if its blocks are fewer than the SMs, else none. A tile at least
    twice as high as C and as the first tile, or twice as wide, is left out. Without a candidate: the last tile.
    """
    batch, m, n, sms = product.batch, product.m, product.n, product.sms
    splits = [split for split in of_cluster if split == 1 or split * MIN_K <= product.k]
    found = []
    for tile in tiles:
        blocks = batch * cdiv(m, tile.m) * cdiv(n, tile.n)
        padded = tile.m >= 2 * max(m, tiles[0].m) or tile.n >= 2 * max(n, tiles[0].n)
        if not padded and blocks <= MOST_BLOCKS * sms:
            wanted = [split for split in splits if sms / 2 <= blocks * split <= 4 * sms]
            if tile.name == UNDIVIDED:
                found += [tile] if 1 in wanted else []
                continue
            chosen = wanted or [splits[-1] if blocks < sms else 1]
            found += [tile._replace(cluster_splits=split) for split in chosen]
    return found or [tiles[-1]]


def rung(folder: Path, name: str, dtypes: Sequence[torch.dtype], tf32: bool = False) -> Rung:
    """The rung whose source, ``folder/name.cu``, includes ``gemm_split_k.cuh``: c = a b, c contiguous."""
    module = cuda.load(folder / f"{name}.cu")

    def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, config: str | None = None) -> None:
        chosen, tensor_cores = config or configs(a, b, tf32)[0], tf32 or a.dtype != torch.float32
        kernel, left, right, sizes = configured(
            module, "warpwise::gemm::cluster_split_k", a, b, c, chosen, tensor_cores
        )
        kernel(
            *(cuda.strided(left.matrices), left.stride, left.batch_stride),
            *(cuda.strided(right.matrices), right.stride, right.batch_stride),
            *(cuda.out(c), *sizes),
        )

    return make_rung(
        folder, name, IDEA, launch, dtypes=tuple(dtypes), limits=limits, strided=True,
        configs=functools.partial(configs, tf32=tf32),
    )  # fmt: skip
