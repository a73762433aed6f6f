"""The launcher of k04, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matvec._shared import THREADS, add_partial_sums, config_numbers, load_bytes, partial_sums

COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"l(\d+)_u(\d+)")  # lanes in a column, loads in flight
RESIDENT = 4  # blocks of an SM
FEWEST_BATCHES = 2  # of a thread, in a split column


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a if a.stride(0) == 1 else a.t().contiguous().t(), x.contiguous()
    (m, k), pitch, size = a.shape, a.stride(1), a.element_size()
    bytes_a_load = load_bytes(size, a.data_ptr(), m * size, pitch * size)
    lanes, in_flight = config_numbers("matvec", config or configs(a, x)[0], FORM)
    blocks, batches = cdiv(m * size, lanes * bytes_a_load), cdiv(k * lanes, in_flight * THREADS)
    parts = max(1, min(RESIDENT * sm_count(a) // max(1, blocks), batches // FEWEST_BATCHES))
    share = max(1, cdiv(k, parts))
    sums = partial_sums(y, max(1, cdiv(k, share)))
    types = f"{cuda.ctype(a.dtype)}, {cuda.ctype(sums.dtype)}"
    kernel = COLUMNS[f"matvec_columns<{types}, {bytes_a_load}, {THREADS}, {in_flight}>"]
    kernel[(blocks, len(sums)), (lanes, THREADS // lanes)](cuda.strided(a), x, cuda.out(sums), m, k, pitch, share)
    add_partial_sums(COLUMNS, y, sums)


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """Lanes along a column: as many as its loads, 32 at most."""
    m, size = a.shape[0], a.element_size()
    bytes_a_load = load_bytes(size, a.data_ptr(), m * size, (a.stride(1) if a.stride(0) == 1 else m) * size)
    lanes = 1
    while lanes < 32 and lanes * bytes_a_load < m * size:
        lanes *= 2
    return tuple(f"l{count}_u8" for count in dict.fromkeys((lanes, max(1, lanes // 2), max(1, lanes // 4))))
