"""The launcher of k18, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.config import config_numbers
from warpwise.gemm.limits import HOPPER_SHARED
from warpwise.gemm.operands import sizes
from warpwise.gemm.semaphores import semaphores
from warpwise.gemm.skinny import BOX
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matmul._shared import operand_maps

STREAM_K = cuda.load(Path(__file__).with_suffix(".cu"))
ROWS = (8, 16, 32, 64, 128, 256)  # of A in a tile
FORM = re.compile(r"(\d+)x(\d+)x(\d+)_s(\d+)")  # columns, rows, k of a stage; stages


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    config = config or configs(a, b)[0]
    columns, rows, depth, stages = config_numbers("matmul", config, FORM)
    maps, b_k_major = operand_maps(a, b, (rows, columns))
    tiles_m, tiles = cdiv(m, rows), cdiv(m, rows) * cdiv(n, columns)
    blocks = min(sm_count(a), tiles * cdiv(k, depth))
    partials = c.new_empty(2 * blocks * columns * rows, dtype=torch.float32)
    shared = 1024 + stages * (columns + rows) * 2 * depth + min(rows, 32) * (columns + 4) * 4
    kernel = STREAM_K[kernel_name(a, config, b_k_major)]
    kernel[blocks, 2 * columns + 32, shared](*maps, c, partials, semaphores(a, tiles), m, n, k, tiles_m, tiles)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Tiles with as many rows as A has, and with half and a quarter of them; as many stages as fit."""
    m, _, _ = sizes(a, b)
    rows = next((width for width in ROWS if width >= m), ROWS[-1])
    widths = dict.fromkeys((rows, max(8, rows // 2), max(8, rows // 4)))
    stages = {width: (HOPPER_SHARED - 2048 - min(width, 32) * 132 * 4) // ((128 + width) * 2 * BOX) for width in widths}
    return tuple(f"128x{width}x{BOX}_s{min(12, stages[width])}" for width in widths)


def kernel_name(a: torch.Tensor, config: str, b_k_major: bool) -> str:
    columns, rows, depth, stages = config_numbers("matmul", config, FORM)
    order = str(b_k_major).lower()
    return f"matmul_stream_k<{cuda.ctype(a.dtype)}, {columns // 64}, {rows}, {order}, {depth}, {stages}>"
