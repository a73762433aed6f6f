"""The launcher of k09, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._configs import config_numbers
from warpwise.ops.matvec._shared import VECTOR, WARP, column_load_bytes, column_major, column_pitch

FEW_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"t(\d+)_p(\d+)")  # threads of a block, packs of a thread in each column
MOST_COLUMNS = 16
MOST_THREADS, PACKS = 128, (1, 2)


def limits(a: torch.Tensor, x: torch.Tensor) -> str | None:
    return None if 0 < a.shape[1] <= MOST_COLUMNS else f"takes 1 to {MOST_COLUMNS} columns, not {a.shape[1]}"


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = column_major(a), x.contiguous()
    (m, k), pitch, bytes = a.shape, column_pitch(a), column_load_bytes(a)
    threads, packs = config_numbers("matvec", config or configs(a, x)[0], FORM)
    kernel = FEW_COLUMNS[f"matvec_few_columns<{cuda.ctype(a.dtype)}, {k}, {bytes}, {threads}, {packs}>"]
    of_block = threads * packs * bytes // a.element_size()  # rows
    kernel[cdiv(m, of_block), threads](cuda.strided(a), x, cuda.out(y), m, pitch)


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """Blocks of 128 threads, or of 64 or 32 if each SM would not have one; two packs of a thread for loads of up to
    8 bytes, else one."""
    bytes, threads = column_load_bytes(a), MOST_THREADS
    loads = cdiv(a.shape[0] * a.element_size(), bytes)
    while threads > WARP and loads < threads * sm_count(a):
        threads //= 2
    found = [(threads, 2 if bytes < VECTOR else 1), *((count, packs) for count in (128, 64) for packs in PACKS)]
    return tuple(f"t{count}_p{packs}" for count, packs in dict.fromkeys(found))
