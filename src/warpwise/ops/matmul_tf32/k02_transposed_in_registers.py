"""The launcher of k02, and its configurations. The MN-major operand is transposed on its way to registers."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.config import GemmConfig, parsed
from warpwise.gemm.operands import flags, on_16_bytes, sizes
from warpwise.gemm.time_model import Family, Product, persistent
from warpwise.operation import sm_count
from warpwise.ops.matmul_tf32._shared import aligned_copy, aligned_rows, k_major, launches

TRANSPOSED = cuda.load(Path(__file__).with_suffix(".cu"))

DEPTH = 32
CONFIGS = parsed(  # a tile has 128 rows of the register operand
    "128x256x32_s4_c2", "128x256x32_s4_c1", "128x192x32_s4_c2", "128x192x32_s4_c1", "128x128x32_s6_c2",
    "128x128x32_s6_c1", "128x64x32_s8_c1",
)  # fmt: skip


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tile = GemmConfig.parse(config or configs(a, b)[0])
    first, second, mn_major, swapped = roles(a, b)
    rows, columns = tile.tiles(n if swapped else m, m if swapped else n)
    clusters = min(rows * columns, max(1, sm_count(a) // tile.blocks))
    maps = (
        cuda.tensor_map(first, (32, 32) if mn_major else (128, DEPTH), tf32=True),
        cuda.tensor_map(second, (tile.n // tile.blocks, DEPTH), tf32=True),
    )
    by_tma = on_16_bytes(c)
    map_c, c_rows = (cuda.tensor_map(c, (32, 32)), None) if by_tma else (maps[0], cuda.out(c))
    template = f"{flags(mn_major, swapped)}, {tile.n}, {tile.blocks}, {tile.stages}, {flags(by_tma)}"
    TRANSPOSED[f"matmul_transposed_in_registers<{template}>"][tile.launch(clusters)](
        *maps, map_c, c_rows, m, n, k, rows, columns, tile.raster_rows(rows, clusters)
    )


def _copied(product: Product, kind: str) -> int:
    """The elements of operands that TMA cannot load in place."""
    (m, n, k), (a, b) = product[:3], product.words
    return (m * k if a < 16 else 0) + (n * k if b < 16 else 0)


FAMILY = Family(persistent, copied=_copied, launches=launches, units="tf32")
configs = FAMILY.configs(lambda product: CONFIGS)


def roles(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool, bool]:
    """(first, second, mn_major, swapped): the first operand is loaded through registers, as (K, extent) if it is
    MN-major, else as (extent, K); the second is (extent, K). ``swapped``: B is the first. An operand that TMA cannot
    load in either layout is copied. If both are MN-major, one is copied."""
    right = readable(b.t())
    if not aligned_rows(right):  # a row-major B
        return right.t(), k_major(a), True, True
    left = readable(a)
    return (left, right, False, False) if aligned_rows(left) else (left.t(), right, True, False)


def readable(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` itself if TMA can load its rows or its columns, or a copy in the same layout."""
    if aligned_rows(matrix) or aligned_rows(matrix.t()):
        return matrix
    return aligned_copy(matrix.t()).t() if matrix.stride(0) == 1 else aligned_copy(matrix)
