"""A tile of rows and classes per program in Triton: short rows share a program, long rows are read chunk by chunk.

The maximum and the sum of exponentials of a row are updated by each chunk, as in k03. A program stores one partial sum,
and a second launch of one program adds them in a fixed order.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv
from warpwise.triton.lib import mean_of_losses, online_softmax_combine

TILE = 4096  # elements of a tile
MOST_CLASSES = 2048  # of a tile
PARTIALS = 1024  # partial sums that are read at once


@wt.jit
def partial_losses(
    x_ptr,
    target_ptr,
    sums_ptr,
    counts_ptr,
    rows,
    classes,
    ignore_index,
    ROWS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """x: (rows, classes), target: (rows); sums, counts: (programs). Grid: cdiv(rows, ROWS) programs.

    A target outside of the classes gives NaN.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    target = tl.load(target_ptr + row, mask=row < rows, other=ignore_index)
    greatest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for first in range(0, classes, CLASSES):
        column = first + tl.arange(0, CLASSES)
        inside = (row < rows)[:, None] & (column < classes)[None, :]
        x = tl.load(x_ptr + row[:, None] * classes + column[None, :], mask=inside, other=float("-inf"))
        most = tl.max(x, axis=1)
        base = tl.where(most == float("-inf"), 0.0, most)
        greatest, total = online_softmax_combine(greatest, total, most, tl.sum(tl.exp(x - base[:, None]), axis=1))
    counted = target != ignore_index
    known = counted & (target >= 0) & (target < classes)
    chosen = tl.load(x_ptr + row * classes + target, mask=known, other=float("nan"))
    losses = tl.where(counted, tl.log(total) - (chosen - greatest), 0.0)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(losses, axis=0))
    tl.store(counts_ptr + tl.program_id(0), tl.sum(counted.to(tl.int32), axis=0))


def tile(classes: int) -> tuple[int, int]:
    """Rows and classes of a tile, powers of two."""
    across = min(MOST_CLASSES, 1 << (classes - 1).bit_length())
    return min(128, max(1, TILE // 2 // across)), across


def launch(
    outputs: tuple[torch.Tensor, torch.Tensor], input: torch.Tensor, target: torch.Tensor, ignore_index: int
) -> None:
    (loss, count), (rows, classes) = outputs, input.shape
    height, across = tile(classes)
    programs = cdiv(rows, height)
    sums, counts = input.new_empty(programs), input.new_empty(programs, dtype=torch.int32)
    if programs:
        partial_losses[(programs,)](
            *(input, target, sums, counts, rows, classes, ignore_index), ROWS=height, CLASSES=across, num_warps=4
        )
    mean_of_losses[(1,)](sums, counts, loss, count, programs, BLOCK=PARTIALS)
