"""The launcher of k03, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matvec._shared import WARP, aligned, config_numbers, partial_sums

ROWS_TOGETHER = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"t(\d+)_r(\d+)_u(\d+)")  # threads per row, rows per team of threads, loads in flight
CONFIGS = ("t128_r4_u2", "t128_r2_u2", "t128_r8_u1", "t32_r2_u2", "t32_r1_u4", "t256_r2_u2", "t256_r1_u4")


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a if a.stride(1) == 1 else a.contiguous(), x.contiguous()
    (m, k), pitch, size = a.shape, a.stride(0), a.element_size()
    bytes_a_load = 16 if aligned(16, a.data_ptr(), x.data_ptr(), pitch * size) else size
    threads, rows, in_flight = config_numbers("matvec", config or configs(a, x)[0], FORM)
    in_flight = in_flight * 16 // max(bytes_a_load, 4)
    teams = 128 // threads if threads < 128 else 1
    groups = cdiv(m, rows)
    splits = max(1, min(1024 * sm_count(a) // (groups * threads), k * size // (threads * 64)))
    if threads < WARP:
        splits = 1
    elif splits > 1:
        teams = 1
    sums, counters = partial_sums(y, groups, splits)
    kernel = ROWS_TOGETHER[
        f"matvec_rows_together<{cuda.ctype(a.dtype)}, {bytes_a_load}, {threads}, {rows}, {in_flight}>"
    ]
    grid = cdiv(groups, teams) * splits
    kernel[grid, (threads, teams)](
        cuda.strided(a), x, y if sums is not None else cuda.out(y), sums, counters, m, k, pitch, splits
    )


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """Teams of four warps, or of fewer threads for short rows, so that each thread loads twice from a row."""
    packs = a.shape[1] * a.element_size() // 16
    if packs >= 128 or a.shape[0] < 64 * sm_count(a):
        return CONFIGS
    few = 4
    while few < 32 and few * 4 <= packs:
        few *= 2
    return f"t{few}_r4_u2", f"t{few}_r8_u2", f"t{few}_r8_u1", *CONFIGS
