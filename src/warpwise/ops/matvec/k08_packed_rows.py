"""The launcher of k08."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.device.limits import requires_ampere
from warpwise.operation import cdiv
from warpwise.ops.matvec._shared import THREADS, VECTOR, WARP

PACKED_ROWS = cuda.load(Path(__file__).with_suffix(".cu"))

ROWS = 4  # kRows
LANES = 4  # lanes of a row, at least
FEWEST_LANES = 2  # lanes of a row of up to SHORT elements
SHORT = 8
VALUES = 8  # elements of a lane, at most, in rows of fewer than 32 lanes
MOST_VALUES = 16  # elements of a lane, at most, in rows of 32 lanes


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    a, x = a.contiguous(), x.contiguous()
    a = a.clone() if a.data_ptr() % VECTOR else a
    m, k = a.shape
    lanes = FEWEST_LANES if k <= SHORT else LANES
    while lanes < WARP and lanes * VALUES < k:
        lanes *= 2
    values, teams = max(2, cdiv(cdiv(k, lanes), 2) * 2), THREADS // lanes
    kernel = PACKED_ROWS[f"matvec_packed_rows<{cuda.ctype(a.dtype)}, {lanes}, {values}>"]
    kernel[cdiv(m, teams * ROWS), (lanes, teams), teams * ROWS * k * a.element_size()](a, x, cuda.out(y), m, k)


def limits(a: torch.Tensor, x: torch.Tensor) -> str | None:
    most = WARP * MOST_VALUES
    return f"takes rows of up to {most} elements, not {a.shape[1]}" if a.shape[1] > most else requires_ampere(a)
