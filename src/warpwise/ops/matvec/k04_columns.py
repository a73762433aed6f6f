"""The launcher of k04, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matvec._shared import THREADS, aligned, config_numbers, partial_sums

COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"l(\d+)_u(\d+)")  # lanes in a column, loads in flight


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a if a.stride(0) == 1 else a.t().contiguous().t(), x.contiguous()
    (m, k), pitch, size = a.shape, a.stride(1), a.element_size()
    bytes_a_load = 16 if aligned(16, a.data_ptr(), m * size, pitch * size) else size
    lanes, in_flight = config_numbers("matvec", config or configs(a, x)[0], FORM)
    groups = cdiv(m, lanes * bytes_a_load // size)
    splits = max(1, min(6 * sm_count(a) // groups, k * lanes // (2 * in_flight * THREADS)))
    sums, counters = partial_sums(y, groups, splits)
    short = str(splits == 1 and k * lanes <= in_flight * THREADS).lower()
    kernel = COLUMNS[f"matvec_columns<{cuda.ctype(a.dtype)}, {bytes_a_load}, {lanes}, {in_flight}, {short}>"]
    kernel[groups * splits, THREADS](
        cuda.strided(a), x, y if sums is not None else cuda.out(y), sums, counters, m, k, pitch, splits
    )


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """Lanes along a column: as many as its loads of 16 bytes, 16 at most."""
    lanes = 1
    while lanes < 16 and lanes * 16 < a.shape[0] * a.element_size():
        lanes *= 2
    return tuple(f"l{count}_u8" for count in dict.fromkeys((lanes, max(1, lanes // 2), min(32, 2 * lanes))))
