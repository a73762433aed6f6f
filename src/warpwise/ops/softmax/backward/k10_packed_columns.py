"""The launcher of k10_packed_columns."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._dims import inner_size, length_along

PACKED_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))
PACK, THREADS, VALUES, LANES = 16, 256, 4, 32  # bytes of a load; kThreads; kValues; kLanes
WIDTH, BLOCKS_AN_SM = 64, 4  # packs of a line that a block reads


def packed_columns(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor, dim: int) -> None:
    if out.numel() != inner_size(out, dim) * length_along(out, dim):
        gradient, y = (value.movedim(dim, 0).contiguous() for value in (gradient, y))
        result = torch.empty_like(y)
        packed_columns(result, gradient, y, 0)
        out.copy_(result.movedim(0, dim))
        return
    gradient, y = (value.clone() if value.data_ptr() % PACK else value for value in (gradient, y))
    length, size, elements = length_along(out, dim), out.element_size(), out.numel()
    columns = elements // length
    fold = PACK // math.gcd(PACK, columns * size)  # rows whose bytes are whole packs
    packs, lines = fold * columns * size // PACK, cdiv(length, fold)
    tiles = cdiv(packs, WIDTH)
    width = cdiv(packs, tiles)
    height = THREADS // width
    parts = max(1, min(BLOCKS_AN_SM * sm_count(out) // tiles, lines // (VALUES * height)))
    share = cdiv(lines, parts)
    grid, block, ctype = (tiles, cdiv(lines, share)), (width, height), cuda.ctype(out.dtype)
    partial = y.new_empty((grid[1] * fold, columns), dtype=torch.float32)
    dot = y.new_empty(columns, dtype=torch.float32)
    sums, apply = (PACKED_COLUMNS[f"softmax_backward_{name}<{ctype}>"] for name in ("packed_sums", "from_packed_sums"))
    sums[grid, block](gradient, y, cuda.out(partial), elements, packs, lines, share)
    add = PACKED_COLUMNS["softmax_backward_add_sums"]
    add[cdiv(columns, LANES), (LANES, LANES)](partial, cuda.out(dot), columns, len(partial))
    apply[grid, block](gradient, y, dot, cuda.out(out), elements, packs, lines, share, columns)
