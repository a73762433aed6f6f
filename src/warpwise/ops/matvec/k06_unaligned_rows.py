"""The launcher of k06, and its configurations."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matvec._shared import VECTOR, WARP, config_numbers, row_pitch, sums_of_splits
from warpwise.ops.matvec.k03_rows_together import (
    CONFIGS,
    FILL,
    FORM,
    MOST_THREADS,
    fitting,
    rows_a_team,
    splits_of,
)
from warpwise.ops.matvec.k04_columns import add_partial_sums

UNALIGNED_ROWS = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a if a.stride(1) == 1 else a.contiguous(), x.contiguous()
    (m, k), pitch, size = a.shape, row_pitch(a), a.element_size()
    threads, rows, unroll = config_numbers("matvec", config or configs(a, x)[0], FORM)
    period = VECTOR // math.gcd(VECTOR, pitch * size)
    teams = 128 // threads if threads <= WARP else 1
    blocks, batches = cdiv(cdiv(m, period * rows) * period, teams), cdiv(k * size, VECTOR * threads * unroll)
    splits = splits_of(a, blocks * threads * teams, batches, rows)
    sums, workspace = sums_of_splits(y, splits, rows == 1)
    types = f"{cuda.ctype(a.dtype)}, {cuda.ctype(sums.dtype)}"
    kernel = UNALIGNED_ROWS[f"matvec_unaligned_rows<{types}, {threads}, {rows}, {unroll}>"]
    kernel[(blocks, splits), (threads, teams)](cuda.strided(a), x, cuda.out(sums), workspace, m, k, pitch, period)
    add_partial_sums(y, sums)


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """128 threads for up to four rows, which share the shifted x; larger teams if there are few rows."""
    (m, k), sms = a.shape, sm_count(a)
    packs, fill = cdiv(k * a.element_size(), VECTOR), FILL * sms
    threads = fitting(packs, 1, 128)
    while threads < MOST_THREADS and threads < packs and threads * m < fill:
        threads *= 2
    return tuple(dict.fromkeys((f"t{threads}_r{rows_a_team(m, threads, sms)}_u1", *CONFIGS)))
