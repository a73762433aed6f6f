"""The launcher of k13, its limits and configurations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import simt
from warpwise.gemm.config import GemmConfig, parsed
from warpwise.gemm.operands import sizes
from warpwise.gemm.simt import K_MAJOR, TMA, operand
from warpwise.gemm.time_model import Family, Product, floats_by_word, partial_wave
from warpwise.operation import cdiv, sm_count

WARP_SPECIALISED = cuda.load(Path(__file__).with_suffix(".cu"))

THREADS, STAGING = 384, 8 * 8 * 80 * 4  # four producer warps, eight consumers; bytes of staged sums
MOST_SPLITS = 64
CONFIGS = parsed(
    "128x256x8_s12", "128x256x16_s8", "256x128x8_s12", "128x128x16_s8", "64x256x16_s8", "64x128x32_s8", "128x64x32_s8",
    "32x256x32_s5", "32x128x64_s4", "64x64x64_s5",
)  # fmt: skip


def shared_bytes(config: GemmConfig, padding: int) -> int:
    """Bytes of shared memory: stages with ``padding`` floats for each k, two barriers each, and staged sums."""
    return config.ring_bytes(4, alignment=128, padding=padding) + STAGING


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or configs(a, b)[0])
    m, n, k = sizes(a, b)
    left, right = operand(contiguous_rows(a)), operand(contiguous_rows(b).t())
    kernel, operands = simt.kernel("matmul", tile, left, right)
    rows, columns = tile.tiles(m, n)
    shared = shared_bytes(tile, 4 * ((left.load == K_MAJOR) + (right.load == K_MAJOR)))
    processors, k_tiles = sm_count(a), cdiv(k, tile.k)
    tail, order = rows * columns % processors, (rows, columns, max(1, 1024 // tile.m))
    ranges, base, pitch = divided(tail, k_tiles, tile.splits, processors)
    whole = rows * columns - (tail if ranges else 0)
    sums = c.new_empty((ranges + tail) * tile.m * tile.n) if ranges else None
    stream_k = whole, ranges, base, pitch
    WARP_SPECIALISED[kernel][min(whole + ranges, processors), THREADS, shared](
        *operands, c if ranges else cuda.out(c), m, n, k, *order, sums, *stream_k
    )
    if ranges:
        neighbours = 4 if n % 4 == 0 else 1
        items = tail * tile.m * tile.n // neighbours
        groups = next((few for few in (1, 2, 4) if few * items >= 1024 * processors or 2 * few * tail > ranges), 8)
        add = WARP_SPECIALISED[f"reduce_splits<{tile.m}, {tile.n}, {neighbours}>"]
        add[items * groups // 256, 256](sums, c, m, n, *order, *stream_k, groups)


def divided(tiles: int, k_tiles: int, splits: int, blocks: int) -> tuple[int, int, int]:
    """The last fields of ``StreamK``: ranges, the k-tiles of a range and those of a tile, rounded up to ranges.

    Each of ``tiles`` tiles has ``splits`` ranges of its own; if these are more than ``blocks``, the k-tiles of all
    tiles are divided equally between the blocks. No ranges: a tile is computed by one block.
    """
    if tiles * (min(splits, k_tiles) - 1) <= 0:
        return 0, 1, 1
    if tiles * splits > blocks:
        base = cdiv(tiles * k_tiles, blocks)
        return cdiv(tiles * k_tiles, base), base, k_tiles
    base = cdiv(k_tiles, splits)
    return tiles * cdiv(k_tiles, base), base, cdiv(k_tiles, base) * base


def candidates(product: Product) -> Iterator[GemmConfig]:
    """Every tile without splits, then with the last, partial wave in the splits that fit the SMs, and in one more."""
    most = max(1, min(MOST_SPLITS, product.k // 256))
    for tile in CONFIGS:
        left = math.prod(tile.tiles(product.m, product.n)) % product.sms
        fits = product.sms // left if left else 1
        for splits in sorted({1, min(fits, most), min(fits + (left * fits < product.sms), most)}):
            yield tile._replace(splits=splits)


FAMILY = Family(partial_wave, floats_by_word, launches=lambda config, kind: 1 + ("_p" in config))
configs = FAMILY.configs(candidates)


def loaded_by_tma(b: torch.Tensor) -> bool:
    """True if TMA loads b, or the copy that ``contiguous_rows`` makes of it."""
    return operand(b.t()).load == TMA if 1 in b.stride() else b.shape[1] % 4 == 0


def contiguous_rows(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix itself, or a copy if neither of its dimensions is contiguous."""
    return matrix if 1 in matrix.stride() else matrix.contiguous()
