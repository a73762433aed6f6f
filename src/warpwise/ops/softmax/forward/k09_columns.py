"""The launcher of k09_columns: one launch, or two if several blocks share a column."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._columns import geometry
from warpwise.ops._dims import inner_size, length_along

FEWEST_ELEMENTS = 8192  # minimum elements of a block if there are two launches
COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))


def columns(out: torch.Tensor, input: torch.Tensor, dim: int) -> None:
    length, inner = length_along(input, dim), inner_size(input, dim)
    count = input.numel() // length
    threads, values, width, parts, share = geometry(
        count, length, input.element_size(), sm_count(input), FEWEST_ELEMENTS
    )
    options = f"<{cuda.ctype(input.dtype)}, {threads}, {values}>"
    height = min(threads // width, cdiv(share, values))  # one line of threads for short columns: no barrier waits
    grid, block = (cdiv(count, width), parts), (width, height)
    if parts == 1:
        COLUMNS[f"softmax_columns{options}"][grid, block](input, cuda.out(out), count, inner, length)
        return
    partial = input.new_empty((parts, count, 2), dtype=torch.float32)
    shape = count, inner, length, share
    COLUMNS[f"softmax_statistics{options}"][grid, block](input, cuda.out(partial), *shape)
    COLUMNS[f"softmax_from_statistics{options}"][grid, block](input, partial, cuda.out(out), *shape)
