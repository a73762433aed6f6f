"""The launcher of k07_columns: one launch, or two if several blocks share a column."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv
from warpwise.ops.softmax import _columns

COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))


def columns(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor, dim: int) -> None:
    shape, packed, count, inner, length = _columns.of(dim, out, gradient, y)
    assert shape is not None
    options = f"<{cuda.ctype(y.dtype)}, {packed}, {shape.threads}, {shape.values}>"
    grid, block = (cdiv(count, shape.lanes * packed), shape.parts), (shape.lanes, shape.height)
    if shape.parts == 1:
        COLUMNS[f"softmax_backward_columns{options}"][grid, block](gradient, y, cuda.out(out), count, inner, length)
        return
    partial = y.new_empty((shape.parts, count), dtype=torch.float32)
    sizes = count, inner, length, shape.share
    COLUMNS[f"softmax_backward_sums{options}"][grid, block](gradient, y, cuda.out(partial), *sizes)
    COLUMNS[f"softmax_backward_from_sums{options}"][grid, block](gradient, y, partial, cuda.out(out), *sizes)
