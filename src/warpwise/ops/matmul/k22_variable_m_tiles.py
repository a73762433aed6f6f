"""The launcher of k22, its limits and configurations: tiles of 256 and 248 rows, against wave quantisation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.config import GemmConfig, names
from warpwise.gemm.operands import addressable, flags, sizes, tma_operand
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matmul import k12_overlapped_epilogue as k12

VARIABLE_M_TILES = cuda.load(Path(__file__).with_suffix(".cu"))

WIDE, NARROW, FLAT = 256, 248, 128  # rows of a tile
TILE_N = 128  # columns of a tile; a flat tile has twice as many
TILE_K, STAGES = 64, 4
MAX_RATIO = 0.995  # the busiest SM's rows divided by its rows with only tiles of 256 rows


def variable(tile_rows: int, flat: bool = False) -> GemmConfig:
    """``tile_rows`` rows of tiles with 256 or 248 rows; with ``flat`` one more with 128."""
    return GemmConfig(WIDE, TILE_N, TILE_K, STAGES, tile_rows=tile_rows, flat=flat)


def wide_rows(config: GemmConfig, m: int) -> int | None:
    """The number of tile rows with 256 rows that cover m rows; None if even all of them do not."""
    left = max(0, cdiv(m - FLAT * config.flat - NARROW * config.tile_rows, WIDE - NARROW))
    return left if left <= config.tile_rows else None


def tile_count(config: GemmConfig, n: int) -> int:
    return cdiv(n, TILE_N) * config.tile_rows + cdiv(n, 2 * TILE_N) * config.flat


def busiest_rows(config: GemmConfig, m: int, n: int, sms: int) -> float:
    """An estimate of the rows of tiles that the busiest SM computes, summed over its tiles."""
    return cdiv(tile_count(config, n), sms) * (m - FLAT * config.flat) / config.tile_rows


def whole_rings(k: int) -> bool:
    """True if the k-tiles of a tile fill the stages a whole number of times."""
    return k > 0 and k % (STAGES * TILE_K) == 0


def raster_group(blocks: int, tile_columns: int) -> int:
    """Tile columns of a raster group, so that concurrent blocks cover about a square of C."""
    return min(max(1, round((blocks * WIDE / TILE_N) ** 0.5)), tile_columns)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    sms = sm_count(a)
    found = parsed(config or configs(a, b)[0])
    wide = wide_rows(found, m)
    if wide is None:
        raise ValueError(f"matmul: expected a configuration for {m} rows, got {config}")
    read_b, b_k_major = tma_operand(b)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (tma_operand(a)[0], read_b, c)]
    tile_columns, flats = cdiv(n, TILE_N), cdiv(n, 2 * TILE_N) * found.flat
    tiles = tile_count(found, n)
    blocks = cdiv(tiles, cdiv(tiles, sms))  # the fewest that need no more waves
    group = raster_group(blocks, tile_columns)
    kernel = VARIABLE_M_TILES[f"matmul_variable_m_tiles<{cuda.ctype(a.dtype)}, {flags(not b_k_major, whole_rings(k))}>"]
    kernel[blocks, 384, found._replace(m=TILE_N, n=WIDE).shared](
        *maps, k, tile_columns, found.tile_rows, group, wide, flats
    )


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits of k12, and a K-major a, because a tile may begin at any row of a."""
    if addressable(a) is None:
        got = f"shape {tuple(a.shape)} with strides {a.stride()}"
        return f"takes an a whose rows begin at multiples of 16 bytes, not {got}"
    return k12.limits(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """The three configurations with the fewest rows on the busiest SM, or only tiles of 256 rows."""
    (m, n, _), sms = sizes(a, b), sm_count(a)
    found = sorted(shorter(m, n, sms), key=lambda config: busiest_rows(config, m, n, sms))[:3]
    return names(found or [variable(max(1, cdiv(m, WIDE)))])


def shorter(m: int, n: int, sms: int) -> Iterator[GemmConfig]:
    """Configurations that give the busiest SM fewer rows than tiles of 256 x 128 do."""
    whole = variable(cdiv(m, WIDE))
    most = MAX_RATIO * busiest_rows(whole, WIDE * whole.tile_rows, n, sms)
    for flat in (False, True):
        left = cdiv(m, 8) * 8 - FLAT * flat
        for count in range(max(1, cdiv(left, WIDE)), left // NARROW + 1):
            if busiest_rows(found := variable(count, flat), m, n, sms) < most:
                yield found


def parsed(config: str) -> GemmConfig:
    """The configuration of that name. Raises ``ValueError`` for one of another kernel."""
    found = GemmConfig.parse(config)
    if found != variable(found.tile_rows, found.flat) or not found.tile_rows:
        raise ValueError(f"matmul: expected a configuration of the form {variable(16).name}, got {config!r}")
    return found
