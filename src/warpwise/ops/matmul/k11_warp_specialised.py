"""The launcher of k11, its limits and configurations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import simt
from warpwise.gemm.config import GemmConfig, chosen, parsed
from warpwise.gemm.operands import sizes
from warpwise.gemm.simt import K_MAJOR, TMA, operand
from warpwise.gemm.time_model import Family, Product, floats_by_word, partial_wave
from warpwise.operation import cdiv, sm_count

WARP_SPECIALISED = cuda.load(Path(__file__).with_suffix(".cu"))

THREADS, STAGING = 384, 8 * 8 * 80 * 4  # four producer warps, eight consumers; bytes of staged sums
MOST_SPLITS, MOST_WAVES = 64, 8
CONFIGS = parsed(
    "128x256x8_s12", "128x256x16_s8", "256x128x8_s12", "128x128x16_s8", "64x256x16_s8", "64x128x32_s8", "128x64x32_s8",
    "32x256x32_s5", "32x128x64_s4", "64x64x64_s5",
)  # fmt: skip


def shared_bytes(config: GemmConfig, padding: int) -> int:
    """Bytes of shared memory: stages with ``padding`` floats for each k, two barriers each, and staged sums."""
    return config.ring_bytes(4, alignment=128, padding=padding) + STAGING


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    found = GemmConfig.parse(config or configs(a, b)[0])
    tile, splits = chosen("matmul", found._replace(splits=1).name, CONFIGS), found.splits
    m, n, k = sizes(a, b)
    left, right = operand(contiguous_rows(a)), operand(contiguous_rows(b).t())
    kernel, operands = simt.kernel("matmul", tile, left, right)
    rows, columns = tile.tiles(m, n)
    shared = shared_bytes(tile, 4 * ((left.load == K_MAJOR) + (right.load == K_MAJOR)))
    processors, count = sm_count(a), min(splits, cdiv(k, tile.k))
    split_tiles = rows * columns % processors if count > 1 else 0
    whole = rows * columns - split_tiles
    order = rows, columns, max(1, 1024 // tile.m)
    sums = c.new_empty(split_tiles * count * tile.m * tile.n) if split_tiles else None
    WARP_SPECIALISED[kernel][min(whole + split_tiles * count, processors), THREADS, shared](
        *operands, c if split_tiles else cuda.out(c), m, n, k, *order, sums, whole, count
    )
    if split_tiles:
        neighbours = 4 if n % 4 == 0 else 1
        items = split_tiles * tile.m * tile.n // neighbours
        groups = next((few for few in (1, 2, 4) if few * items >= 1024 * processors or 2 * few > count), 8)
        add = WARP_SPECIALISED[f"reduce_splits<{tile.m}, {tile.n}, {neighbours}>"]
        add[items * groups // 256, 256](sums, c, m, n, *order, whole, count, groups)


def best_splits(tile: GemmConfig, product: Product) -> list[int]:
    """1, and the three numbers of splits, with up to MOST_WAVES waves, for which the partial wave is shortest."""
    rows, columns = tile.tiles(product.m, product.n)
    left, most = rows * columns % product.sms, max(1, min(MOST_SPLITS, product.k // 256))
    if not left:
        return [1]
    wave = product._replace(m=left * tile.m, n=tile.n, words=(16, 16))
    fills = {min(most, waves * product.sms // left) for waves in range(1, MOST_WAVES + 1)}
    return [1, *sorted(fills, key=lambda splits: FAMILY.nominal(wave, tile._replace(splits=splits)))[:3]]


def candidates(product: Product) -> Iterator[GemmConfig]:
    """Every tile, also with the tiles of the last, partial wave split along K."""
    for tile in CONFIGS:
        for splits in best_splits(tile, product):
            yield tile._replace(splits=splits)


FAMILY = Family(partial_wave, floats_by_word, launches=lambda config, kind: 1 + ("_p" in config))
configs = FAMILY.configs(candidates)


def loaded_by_tma(b: torch.Tensor) -> bool:
    """True if TMA loads b, or the copy that ``contiguous_rows`` makes of it."""
    return operand(b.t()).load == TMA if 1 in b.stride() else b.shape[1] % 4 == 0


def contiguous_rows(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix itself, or a copy if neither of its dimensions is contiguous."""
    return matrix if 1 in matrix.stride() else matrix.contiguous()
