"""A block of rows and all classes per program in Triton: the logits are one tile of tl.dot and never leave registers.

Softmax and loss are computed from the tile. A program stores one partial sum of losses, and a second launch of one
program adds them in a fixed order.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv
from warpwise.triton.lib import mean_of_losses

TILE, MOST_ROWS, FEATURES, PARTIALS = 4096, 64, 32, 1024  # elements and rows of a tile; features and sums at once


@wt.jit
def row_blocks(
    x_ptr,
    w_ptr,
    b_ptr,
    target_ptr,
    p_ptr,
    sums_ptr,
    counts_ptr,
    rows,
    features,
    classes,
    ignore_index,
    ROWS: tl.constexpr,
    CLASSES: tl.constexpr,
    FEATURES: tl.constexpr,
):
    """x: (rows, features), w: (classes, features), b: (classes) or None, target: (rows), p: (rows, classes); sums,
    counts: (programs). CLASSES >= classes. Grid: cdiv(rows, ROWS). A target outside of the classes gives NaN.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, CLASSES)
    logits = tl.zeros((ROWS, CLASSES), tl.float32)
    for first in range(0, features, FEATURES):
        at = first + tl.arange(0, FEATURES)
        inside = (row < rows)[:, None] & (at < features)[None, :]
        x = tl.load(x_ptr + row[:, None] * features + at[None, :], mask=inside, other=0.0)
        taken = (at < features)[:, None] & (column < classes)[None, :]
        w = tl.load(w_ptr + column[None, :].to(tl.int64) * features + at[:, None], mask=taken, other=0.0)
        logits = tl.dot(x, w, logits, input_precision="ieee")
    if b_ptr is not None:
        logits += tl.load(b_ptr + column, mask=column < classes, other=0.0)[None, :]
    logits = tl.where((column < classes)[None, :], logits, float("-inf"))
    shifted = logits - tl.max(logits, axis=1)[:, None]
    powers = tl.exp(shifted)
    total = tl.sum(powers, axis=1)
    inside = (row < rows)[:, None] & (column < classes)[None, :]
    tl.store(p_ptr + row[:, None] * classes + column[None, :], powers / total[:, None], mask=inside)
    target = tl.load(target_ptr + row, mask=row < rows, other=ignore_index)
    counted, known = target != ignore_index, (target >= 0) & (target < classes)
    chosen = tl.sum(tl.where(column[None, :] == target[:, None], shifted, 0.0), axis=1)
    losses = tl.where(counted, tl.where(known, tl.log(total) - chosen, float("nan")), 0.0)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(losses, axis=0))
    tl.store(counts_ptr + tl.program_id(0), tl.sum(counted.to(tl.int32), axis=0))


def launch(
    outputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: torch.Tensor | None,
    ignore_index: int,
) -> None:
    (loss, probabilities, count), (rows, features), classes = outputs, input.shape, len(linear_weight)
    across = max(16, 1 << (classes - 1).bit_length())
    height = max(16, min(MOST_ROWS, TILE // across))
    programs = cdiv(rows, height)
    sums, counts = input.new_empty(programs), input.new_empty(programs, dtype=torch.int32)
    if programs:
        row_blocks[(programs,)](
            *(input, linear_weight, linear_bias, target, probabilities, sums, counts),
            *(rows, features, classes, ignore_index),
            ROWS=height, CLASSES=across, FEATURES=FEATURES, num_warps=4,
        )  # fmt: skip
    mean_of_losses[(1,)](sums, counts, loss, count, programs, BLOCK=PARTIALS)
