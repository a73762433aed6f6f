"""The launcher of k07_columns: one launch, or two if several blocks share a column."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._columns import geometry
from warpwise.ops._dims import inner_size, length_along

FEWEST_ELEMENTS = 8192  # minimum elements of a block if there are two launches
COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))


def columns(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor, dim: int) -> None:
    length, inner = length_along(y, dim), inner_size(y, dim)
    count = y.numel() // length
    threads, values, width, parts, share = geometry(count, length, y.element_size(), sm_count(y), FEWEST_ELEMENTS)
    options = f"<{cuda.ctype(y.dtype)}, {threads}, {values}>"
    height = min(threads // width, cdiv(share, values))  # one line of threads for short columns: no barrier waits
    grid, block = (cdiv(count, width), parts), (width, height)
    if parts == 1:
        COLUMNS[f"softmax_backward_columns{options}"][grid, block](gradient, y, cuda.out(out), count, inner, length)
        return
    partial = y.new_empty((parts, count), dtype=torch.float32)
    shape = count, inner, length, share
    COLUMNS[f"softmax_backward_sums{options}"][grid, block](gradient, y, cuda.out(partial), *shape)
    COLUMNS[f"softmax_backward_from_sums{options}"][grid, block](gradient, y, partial, cuda.out(out), *shape)
