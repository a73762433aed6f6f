"""The launcher of k09_columns: one launch for columns that a block holds, or two."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv
from warpwise.ops.softmax import _columns

COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))


def columns(out: torch.Tensor, input: torch.Tensor, dim: int) -> None:
    shape, packed, count, inner, length = _columns.of(dim, out, input)
    assert shape is not None
    options = f"<{cuda.ctype(input.dtype)}, {packed}, {shape.threads}, {shape.values}>"
    grid, block = (cdiv(count, shape.lanes * packed), shape.parts), (shape.lanes, shape.height)
    if length <= shape.height * shape.values:
        COLUMNS[f"softmax_columns{options}"][grid, block](input, cuda.out(out), count, inner, length)
        return
    partial = input.new_empty((shape.parts, count, 2), dtype=torch.float32)
    sizes = count, inner, length, shape.share
    COLUMNS[f"softmax_statistics{options}"][grid, block](input, cuda.out(partial), *sizes)
    COLUMNS[f"softmax_from_statistics{options}"][grid, block](input, partial, cuda.out(out), *sizes)
