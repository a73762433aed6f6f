"""The launcher of k13_packed_columns."""

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


def packed_columns(out: torch.Tensor, input: torch.Tensor, dim: int) -> None:
    if out.numel() != inner_size(out, dim) * length_along(out, dim):
        input = input.movedim(dim, 0).contiguous()
        result = torch.empty_like(input)
        packed_columns(result, input, 0)
        out.copy_(result.movedim(0, dim))
        return
    input = input.clone() if input.data_ptr() % PACK else input
    length, elements = length_along(out, dim), out.numel()
    columns, ctype = elements // length, cuda.ctype(out.dtype)
    shape = lines_of(columns, length, out.element_size(), sm_count(out), pack_width(out), VALUES)
    grid, block = (shape.tiles, shape.parts), (shape.width, shape.height)
    sizes = elements, shape.packs, shape.lines, shape.share
    partial = input.new_empty((shape.parts * shape.fold, columns, 2), dtype=torch.float32)
    all = input.new_empty((columns, 2), dtype=torch.float32)
    PACKED_COLUMNS[f"softmax_packed_statistics<{ctype}>"][grid, block](input, cuda.out(partial), *sizes)
    combine = PACKED_COLUMNS["softmax_combine_statistics"]
    combine[cdiv(columns, LANES), (LANES, LANES)](partial, cuda.out(all), columns, len(partial))
    apply = PACKED_COLUMNS[f"softmax_from_packed_statistics<{ctype}>"]
    apply[grid, block](input, all, cuda.out(out), *sizes, columns)
