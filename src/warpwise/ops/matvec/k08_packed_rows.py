"""The launcher of k08, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.device.limits import requires_ampere
from warpwise.operation import cdiv
from warpwise.ops.matvec._shared import THREADS, VECTOR, WARP, config_numbers

PACKED_ROWS = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"l(\d+)_r(\d+)")  # lanes of a row, rows of a block
MOST_VALUES, VALUES = 16, 8  # elements of a lane: at most, and if more lanes can be
FEWEST_LANES = 4
TOGETHER = 4  # kTogether
BYTES = 24 << 10  # of a block, about: an SM holds eight, which have as much in flight as it needs while others add


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a.contiguous(), x.contiguous()
    a = a.clone() if a.data_ptr() % VECTOR else a
    (m, k), size = a.shape, a.element_size()
    lanes, rows = config_numbers("matvec", config or configs(a, x)[0], FORM)
    values = max(2, cdiv(cdiv(k, lanes), 2) * 2)
    kernel = PACKED_ROWS[f"matvec_packed_rows<{cuda.ctype(a.dtype)}, {lanes}, {values}>"]
    kernel[cdiv(m, rows), (lanes, THREADS // lanes), rows * k * size](a, x, cuda.out(y), m, k, rows)


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """The fewest lanes of a row, and whole batches of rows with about ``BYTES``; then other lanes and rows."""
    (_, k), lanes = a.shape, FEWEST_LANES
    while lanes < WARP and lanes * VALUES < k:
        lanes *= 2
    wide, each = min(WARP, 2 * lanes), k * a.element_size()
    others = ((lanes, BYTES), (lanes, BYTES // 2), (wide, BYTES), (lanes, 2 * BYTES))
    return tuple(dict.fromkeys(f"l{count}_r{rows_of(each, count, bytes)}" for count, bytes in others))


def rows_of(row: int, lanes: int, bytes: int) -> int:
    """Rows of a block, of ``row`` bytes each: full batches of its teams, so that packs begin at the first one."""
    batch = THREADS // lanes * TOGETHER
    return max(1, bytes // max(1, row * batch)) * batch


def limits(a: torch.Tensor, x: torch.Tensor) -> str | None:
    most = WARP * MOST_VALUES
    return f"takes rows of up to {most} elements, not {a.shape[1]}" if a.shape[1] > most else requires_ampere(a)
