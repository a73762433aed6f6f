"""The launcher of k13_packed_columns."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._packed_columns import PACK, THREADS, lines_of
from warpwise.ops.softmax._columns import pack_width
from warpwise.ops.softmax._launch import along_columns

PACKED_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))
VALUES, ORDERED, LANES = 4, 2, 32  # kValues; kOrdered; kLanes


@along_columns
def packed_columns(out: torch.Tensor, input: torch.Tensor) -> None:
    (length, columns), elements, ctype = out.shape, out.numel(), cuda.ctype(out.dtype)
    shape = lines_of(columns, length, out.element_size(), sm_count(out), pack_width(out), VALUES)
    grid, block = (shape.tiles, shape.parts), (shape.width, shape.height)
    sizes = elements, shape.packs, shape.lines
    partial = input.new_empty((shape.parts * shape.fold, columns, 2), dtype=torch.float32)
    all = input.new_empty((shape.fold, columns, 2), dtype=torch.float32)
    PACKED_COLUMNS[f"softmax_packed_statistics<{ctype}>"][grid, block](input, cuda.out(partial), *sizes)
    combine = PACKED_COLUMNS["softmax_combine_statistics"]
    combine[cdiv(columns, LANES), (LANES, LANES)](partial, cuda.out(all), columns, len(partial), shape.fold)
    apply = PACKED_COLUMNS[f"softmax_from_packed_statistics<{ctype}>"]
    blocks = cdiv(elements * out.element_size(), PACK * THREADS * ORDERED)
    apply[blocks, THREADS](input, all, cuda.out(out), elements, shape.packs)
