"""The launcher of k10_packed_columns."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._packed_columns import PACK, THREADS, lines_of
from warpwise.ops.softmax._columns import pack_width
from warpwise.ops.softmax._launch import along_columns

PACKED_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))
VALUES, LANES = 4, 32  # kValues; kLanes


@along_columns
def packed_columns(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor) -> None:
    (length, columns), elements, ctype = out.shape, out.numel(), cuda.ctype(out.dtype)
    shape = lines_of(columns, length, out.element_size(), sm_count(out), pack_width(out), VALUES)
    grid, block = (shape.tiles, shape.parts), (shape.width, shape.height)
    packs, lines = shape.packs, shape.lines
    partial = y.new_empty((shape.parts * shape.fold, columns), dtype=torch.float32)
    dot = y.new_empty((shape.fold, columns), dtype=torch.float32)
    sums, apply = (PACKED_COLUMNS[f"softmax_backward_{name}<{ctype}>"] for name in ("packed_sums", "from_packed_sums"))
    sums[grid, block](gradient, y, cuda.out(partial), elements, packs, lines)
    add = PACKED_COLUMNS["softmax_backward_add_sums"]
    add[cdiv(columns, LANES), (LANES, LANES)](partial, cuda.out(dot), columns, len(partial), shape.fold)
    blocks = cdiv(elements * out.element_size(), PACK * THREADS * VALUES)
    apply[blocks, THREADS](gradient, y, dot, cuda.out(out), elements, packs)
