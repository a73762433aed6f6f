"""The ladder of matvec, slowest idea first, and its launchers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm.config import config_numbers
from warpwise.gemm.semaphores import semaphores
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops.matvec.spec import KERNEL_DTYPES

HERE = Path(__file__).parent
THREADS = 256
WARP, WARPS = 32, 8  # a block's, of 256 threads
MOST_BLOCKS = 2**31 - 1

THREAD_PER_ROW = cuda.load(HERE / "k01_thread_per_row.cu")
WARP_PER_ROW = cuda.load(HERE / "k02_warp_per_row.cu")
ROWS_TOGETHER = cuda.load(HERE / "k03_rows_together.cu")
COLUMNS_KERNELS = cuda.load(HERE / "k04_columns.cu")
ROWS = re.compile(r"t(\d+)_r(\d+)_u(\d+)")  # threads a row, rows a team, loads in flight
COLUMNS = re.compile(r"l(\d+)_u(\d+)")  # lanes in a column, columns in flight


def thread_per_row(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    m, k = a.shape
    kernel = THREAD_PER_ROW[f"matvec_thread_per_row<{cuda.ctype(a.dtype)}>"]
    kernel[cdiv(m, THREADS), THREADS](cuda.strided(a), x.contiguous(), cuda.out(y), m, k, *a.stride())


def warp_per_row(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    m, k = a.shape
    kernel = WARP_PER_ROW[f"matvec_warp_per_row<{cuda.ctype(a.dtype)}>"]
    kernel[cdiv(m, WARPS), (WARP, WARPS)](cuda.strided(a), x.contiguous(), cuda.out(y), m, k, *a.stride())


def aligned(size: int, *values: int) -> bool:
    """True if all values are multiples of ``size``."""
    return all(value % size == 0 for value in values)


def _shared(y: torch.Tensor, groups: int, parts: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Memory for the partial sums of ``parts`` blocks, and a semaphore for each group of rows; None for one part."""
    if parts == 1:
        return None, None
    return y.new_empty((parts, len(y)), dtype=torch.float32), semaphores(y, groups)


ROWS_TOGETHER_CONFIGS = ("t128_r4_u2", "t128_r2_u2", "t128_r8_u1", "t32_r2_u2", "t32_r1_u4", "t256_r2_u2", "t256_r1_u4")


def rows_configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """Four warps a team; fewer threads for short rows, so that each makes two loads of a row."""
    packs = a.shape[1] * a.element_size() // 16
    if packs >= 128 or a.shape[0] < 64 * sm_count(a):
        return ROWS_TOGETHER_CONFIGS
    few = 4
    while few < 32 and few * 4 <= packs:
        few *= 2
    return f"t{few}_r4_u2", f"t{few}_r8_u2", f"t{few}_r8_u1", *ROWS_TOGETHER_CONFIGS


def rows_together(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a if a.stride(1) == 1 else a.contiguous(), x.contiguous()
    (m, k), pitch, size = a.shape, a.stride(0), a.element_size()
    bytes_a_load = 16 if aligned(16, a.data_ptr(), x.data_ptr(), pitch * size) else size
    threads, rows, turns = config_numbers("matvec", config or rows_configs(a, x)[0], ROWS)
    turns = turns * 16 // max(bytes_a_load, 4)
    teams = 128 // threads if threads < 128 else 1
    groups = cdiv(m, rows)
    parts = max(1, min(1024 * sm_count(a) // (groups * threads), k * size // (threads * 64)))
    if threads < WARP:
        parts = 1
    elif parts > 1:
        teams = 1
    sums, counters = _shared(y, groups, parts)
    kernel = ROWS_TOGETHER[f"matvec_rows_together<{cuda.ctype(a.dtype)}, {bytes_a_load}, {threads}, {rows}, {turns}>"]
    grid = cdiv(groups, teams) * parts
    kernel[grid, (threads, teams)](
        cuda.strided(a), x, y if sums is not None else cuda.out(y), sums, counters, m, k, pitch, parts
    )


def columns_configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """Lanes along a column: as many as its loads of 16 bytes, 16 at most."""
    lanes = 1
    while lanes < 16 and lanes * 16 < a.shape[0] * a.element_size():
        lanes *= 2
    return tuple(f"l{count}_u8" for count in dict.fromkeys((lanes, max(1, lanes // 2), min(32, 2 * lanes))))


def columns(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a if a.stride(0) == 1 else a.t().contiguous().t(), x.contiguous()
    (m, k), pitch, size = a.shape, a.stride(1), a.element_size()
    bytes_a_load = 16 if aligned(16, a.data_ptr(), m * size, pitch * size) else size
    lanes, turns = config_numbers("matvec", config or columns_configs(a, x)[0], COLUMNS)
    groups = cdiv(m, lanes * bytes_a_load // size)
    parts = max(1, min(6 * sm_count(a) // groups, k * lanes // (2 * turns * THREADS)))
    sums, counters = _shared(y, groups, parts)
    short = str(parts == 1 and k * lanes <= turns * THREADS).lower()
    kernel = COLUMNS_KERNELS[f"matvec_columns<{cuda.ctype(a.dtype)}, {bytes_a_load}, {lanes}, {turns}, {short}>"]
    kernel[groups * parts, THREADS](
        cuda.strided(a), x, y if sums is not None else cuda.out(y), sums, counters, m, k, pitch, parts
    )


def triton_tiled(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    from warpwise.ops.matvec.k05_triton import matvec_tiled

    m, k = a.shape
    block_m, block_k = (128, 32) if a.stride(0) == 1 and m > 1 else (8, 512)
    grid = (cdiv(m, block_m),)
    matvec_tiled[grid](a, x.contiguous(), y, m, k, *a.stride(), BLOCK_M=block_m, BLOCK_K=block_k, num_warps=4)


def limits(a: torch.Tensor, x: torch.Tensor) -> str | None:
    """A grid with a block a row, as k03 may have."""
    return f"takes up to {MOST_BLOCKS} rows, not {a.shape[0]}" if a.shape[0] > MOST_BLOCKS else None


def triton_limits(a: torch.Tensor, x: torch.Tensor) -> str | None:
    """k05's: its loop over K counts in 32 bits, up to a tile past the end."""
    if 2**31 - 1024 < a.shape[1] < 2**31:
        return f"takes up to {2**31 - 1024} columns, or 2**31 and more, not {a.shape[1]}"
    return limits(a, x)


def rung(name: str, idea: str, launch: Any, **options: Any) -> Rung:
    return make_rung(
        HERE, name, idea, launch, **{"dtypes": KERNEL_DTYPES, "limits": limits, "strided": True, **options}
    )


RUNGS = (
    rung("k01_thread_per_row", "one thread a row", thread_per_row),
    rung("k02_warp_per_row", "a warp a row, coalesced", warp_per_row),
    rung("k03_rows_together", "16-byte loads, several rows and loads in flight", rows_together, configs=rows_configs),
    rung(
        "k04_columns", "for transposed views: lanes keep rows and walk along columns", columns, configs=columns_configs
    ),
    rung("k05_triton", "either order in Triton", triton_tiled, limits=triton_limits),
)


def default(a: torch.Tensor, x: torch.Tensor) -> str | None:
    """The rung for sizes that no table covers: k04 for a column-major a, k03 for a row-major one, k05 for many rows that do
    not begin on 16 bytes, of which Triton keeps more loads in flight; PyTorch for float64."""
    if a.dtype not in KERNEL_DTYPES or limits(a, x):
        return None
    if a.stride(0) == 1 and a.stride(1) != 1 and a.shape[0] > 1:
        return "k04_columns"
    vectors = aligned(16, a.data_ptr(), a.stride(0) * a.element_size()) or a.stride(1) != 1
    few = a.shape[0] < 32 * sm_count(a) or triton_limits(a, x)
    return "k03_rows_together" if vectors or few else "k05_triton"
