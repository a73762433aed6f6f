"""The launcher of k10_packed_columns."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._dims import inner_size, length_along
from warpwise.ops._packed_columns import PACK, lines_of
from warpwise.ops.softmax._columns import pack_width

PACKED_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))
VALUES, LANES = 4, 32  # kValues; kLanes


def packed_columns(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor, dim: int) -> None:
    if out.numel() != inner_size(out, dim) * length_along(out, dim):
        gradient, y = (value.movedim(dim, 0).contiguous() for value in (gradient, y))
        result = torch.empty_like(y)
        packed_columns(result, gradient, y, 0)
        out.copy_(result.movedim(0, dim))
        return
    gradient, y = (value.clone() if value.data_ptr() % PACK else value for value in (gradient, y))
    length, elements = length_along(out, dim), out.numel()
    columns, ctype = elements // length, cuda.ctype(out.dtype)
    shape = lines_of(columns, length, out.element_size(), sm_count(out), pack_width(out), VALUES)
    grid, block = (shape.tiles, shape.parts), (shape.width, shape.height)
    packs, lines, share = shape.packs, shape.lines, shape.share
    partial = y.new_empty((shape.parts * shape.fold, columns), dtype=torch.float32)
    dot = y.new_empty(columns, dtype=torch.float32)
    sums, apply = (PACKED_COLUMNS[f"softmax_backward_{name}<{ctype}>"] for name in ("packed_sums", "from_packed_sums"))
    sums[grid, block](gradient, y, cuda.out(partial), elements, packs, lines, share)
    add = PACKED_COLUMNS["softmax_backward_add_sums"]
    add[cdiv(columns, LANES), (LANES, LANES)](partial, cuda.out(dot), columns, len(partial))
    apply[grid, block](gradient, y, dot, cuda.out(out), elements, packs, lines, share, columns)
