"""The launcher of k08_split_rows."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops.softmax._launch import is_aligned

THREADS, PACK = 256, 16  # kThreads; bytes of a vector of a thread
FEWEST_STEPS, BLOCKS = 2, 8  # vectors of a thread in a part, at least; blocks of an SM
MAX_ROWS = 65535  # blocks of a grid in y
SPLIT_ROWS = cuda.load(Path(__file__).with_suffix(".cu"))


def split_rows(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor) -> None:
    rows, columns = out.shape
    step = THREADS * PACK // out.element_size()
    parts = min(cdiv(columns, FEWEST_STEPS * step), cdiv(BLOCKS * sm_count(out), rows))
    share = cdiv(cdiv(columns, parts), step) * step
    parts = cdiv(columns, share)
    partial = out.new_empty((rows, parts), dtype=torch.float32)
    options = f"<{cuda.ctype(out.dtype)}, {str(is_aligned(PACK, out, gradient, y)).lower()}>"
    grid = (parts, rows)
    SPLIT_ROWS[f"softmax_backward_parts{options}"][grid, THREADS](gradient, y, cuda.out(partial), columns, share)
    kernel = SPLIT_ROWS[f"softmax_backward_from_parts{options}"]
    kernel[grid, THREADS](gradient, y, partial, cuda.out(out), columns, share)
