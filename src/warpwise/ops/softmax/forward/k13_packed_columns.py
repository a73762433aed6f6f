"""The launcher of k13_packed_columns."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv
from warpwise.ops._packed_columns import THREADS
from warpwise.ops.softmax._columns import packed_blocks, packed_lines
from warpwise.ops.softmax._launch import along_columns

PACKED_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))
VALUES, ORDERED, LANES = 4, 2, 32  # kValues; kOrdered; kLanes


@along_columns
def packed_columns(out: torch.Tensor, input: torch.Tensor) -> None:
    columns, elements, ctype = out.shape[1], out.numel(), cuda.ctype(out.dtype)
    shape, few = packed_lines(out, VALUES)
    grid, block, options = (shape.tiles, shape.parts), (shape.width, shape.height), f"<{ctype}, {str(few).lower()}>"
    partial = input.new_empty((shape.parts * (1 if few else shape.fold), columns, 2), dtype=torch.float32)
    statistics = PACKED_COLUMNS[f"softmax_packed_statistics{options}"]
    statistics[grid, block](input, cuda.out(partial), elements, shape.packs, shape.lines, columns)
    all = partial
    if not few:
        all = input.new_empty((shape.fold, columns, 2), dtype=torch.float32)
        combine = PACKED_COLUMNS["softmax_combine_statistics"]
        combine[cdiv(columns, LANES), (LANES, LANES)](partial, cuda.out(all), columns, len(partial), shape.fold)
    apply = PACKED_COLUMNS[f"softmax_from_packed_statistics{options}"]
    blocks = packed_blocks(out, few, VALUES if few else ORDERED)
    apply[blocks, THREADS](input, all, cuda.out(out), elements, shape.packs, columns, shape.parts)
