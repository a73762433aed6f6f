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
BYTES = 24 << 10  # of a block, about: an SM holds eight, which have as much in flight as it needs while others add
MOST_BYTES = 48 << 10  # a block may have on any GPU


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a.contiguous(), x.contiguous()
    a = a.clone() if a.data_ptr() % VECTOR else a
    (m, k), size = a.shape, a.element_size()
    lanes, rows = config_numbers("matvec", config or configs(a, x)[0], FORM)
    values = max(2, cdiv(cdiv(k, lanes), 2) * 2)
    kernel = PACKED_ROWS[f"matvec_packed_rows<{cuda.ctype(a.dtype)}, {lanes}, {values}>"]
    kernel[cdiv(m, rows), (lanes, THREADS // lanes), rows * k * size](a, x, cuda.out(y), m, k, rows)


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """The fewest lanes of a row, and rows whose bytes are about ``BYTES``; then other lanes and rows."""
    k, size = a.shape[1], a.element_size()
    lanes = FEWEST_LANES
    while lanes < WARP and lanes * VALUES < k:
        lanes *= 2
    return tuple(
        dict.fromkeys(
            f"l{count}_r{rows_of(k, size, count, bytes)}"
            for count, bytes in ((lanes, BYTES), (lanes, BYTES // 2), (min(WARP, 2 * lanes), BYTES), (lanes, 2 * BYTES))
            if count * MOST_VALUES >= k
        )
    )


def rows_of(k: int, size: int, lanes: int, bytes: int) -> int:
    """Rows of a block: a multiple of its teams of lanes, which are at least as many as a pack has elements."""
    teams = THREADS // lanes
    return max(1, min(bytes, MOST_BYTES) // (max(1, k) * size * teams)) * teams


def limits(a: torch.Tensor, x: torch.Tensor) -> str | None:
    most = WARP * MOST_VALUES
    return f"takes rows of up to {most} elements, not {a.shape[1]}" if a.shape[1] > most else requires_ampere(a)
