"""The gradient in Triton: the tile of the forward's k04, whose chunks are read a second time, out of L2, and stored."""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv
from warpwise.ops.cross_entropy.forward.k04_triton import tile
from warpwise.triton.lib import online_softmax_combine


@wt.jit
def cross_entropy_backward(
    grad_ptr,
    x_ptr,
    target_ptr,
    count_ptr,
    dx_ptr,
    rows,
    classes,
    ignore_index,
    ROWS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """dx = (softmax(x) - one_hot(target)) * grad / count. x, dx: (rows, classes), target: (rows).

    grad, count: one element. Grid: cdiv(rows, ROWS) programs.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    target = tl.load(target_ptr + row, mask=row < rows, other=ignore_index)
    scale = tl.where(target == ignore_index, 0.0, tl.load(grad_ptr) / tl.load(count_ptr).to(tl.float32))
    greatest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for first in range(0, classes, CLASSES):
        column = first + tl.arange(0, CLASSES)
        inside = (row < rows)[:, None] & (column < classes)[None, :]
        x = tl.load(x_ptr + row[:, None] * classes + column[None, :], mask=inside, other=float("-inf"))
        most = tl.max(x, axis=1)
        base = tl.where(most == float("-inf"), 0.0, most)
        greatest, total = online_softmax_combine(greatest, total, most, tl.sum(tl.exp(x - base[:, None]), axis=1))
    for first in range(0, classes, CLASSES):
        column = first + tl.arange(0, CLASSES)
        inside = (row < rows)[:, None] & (column < classes)[None, :]
        x = tl.load(x_ptr + row[:, None] * classes + column[None, :], mask=inside, other=0.0)
        p = tl.exp(x - greatest[:, None]) / total[:, None]
        gradient = (p - tl.where(column[None, :] == target[:, None], 1.0, 0.0)) * scale[:, None]
        tl.store(dx_ptr + row[:, None] * classes + column[None, :], gradient, mask=inside)


def launch(
    grad_input: torch.Tensor,
    grad_loss: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int,
    count: torch.Tensor,
) -> None:
    rows, classes = input.shape
    height, across = tile(classes)
    cross_entropy_backward[(cdiv(rows, height),)](
        *(grad_loss, input, target, count, grad_input, rows, classes, ignore_index),
        ROWS=height,
        CLASSES=across,
        num_warps=4,
    )
