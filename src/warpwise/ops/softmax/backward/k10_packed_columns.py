"""The launcher of k10_packed_columns."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv
from warpwise.ops._packed_columns import THREADS
from warpwise.ops.softmax._columns import packed_blocks, packed_lines
from warpwise.ops.softmax._launch import along_columns

PACKED_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))
VALUES, LANES = 4, 32  # kValues; kLanes


@along_columns
def packed_columns(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor) -> None:
    columns, elements, ctype = out.shape[1], out.numel(), cuda.ctype(out.dtype)
    shape, few = packed_lines(out, VALUES)
    grid, block = (shape.tiles, shape.parts), (shape.width, shape.height)
    options = f"<{ctype}, {str(few).lower()}>"
    partial = y.new_empty((shape.parts * (1 if few else shape.fold), columns), dtype=torch.float32)
    sums, apply = (PACKED_COLUMNS[f"softmax_backward_{name}{options}"] for name in ("packed_sums", "from_packed_sums"))
    sums[grid, block](gradient, y, cuda.out(partial), elements, shape.packs, shape.lines, columns)
    blocks = packed_blocks(out, few, VALUES)
    dot = partial
    if not few:
        dot = y.new_empty((shape.fold, columns), dtype=torch.float32)
        add = PACKED_COLUMNS["softmax_backward_add_sums"]
        add[cdiv(columns, LANES), (LANES, LANES)](partial, cuda.out(dot), columns, len(partial), shape.fold)
    apply[blocks, THREADS](gradient, y, dot, cuda.out(out), elements, shape.packs, columns, shape.parts)
