"""The ladder of linear_cross_entropy_gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.branch import gradients_aside
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.linear_cross_entropy.forward.rungs import THREADS, WARPS, is_small, width
from warpwise.ops.linear_cross_entropy.gradients.spec import SPEC, Results
from warpwise.ops.linear_cross_entropy.spec import DTYPES, Optional

HERE = Path(__file__).parent
MOST_CLASSES, MOST_ROWS = 16, 64  # kClasses, kMostRows
MOST = 2**14  # rows of a batch: each block counts all targets
WARP_PER_ROW = cuda.load(HERE / "k01_warp_per_row.cu")


def limits(input: torch.Tensor, linear_weight: torch.Tensor, *rest: Any) -> str | None:
    (rows, features), classes = input.shape, len(linear_weight)
    if rows > MOST or classes > MOST_CLASSES or not 0 < features * rows < 2**30:
        return (
            f"takes up to {MOST} rows, {MOST_CLASSES} classes, one feature or more and fewer than 2^30 elements, "
            f"not {rows} x {features} and {classes} classes"
        )
    return None


def warp_per_row(
    outputs: Results,
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
    needs_input: bool,
) -> None:
    loss, grad_input, *sums = outputs
    (rows, features), classes = input.shape, len(linear_weight)
    share = min(MOST_ROWS, WARPS * cdiv(rows, WARPS * sm_count(input)))
    blocks = cdiv(rows, share)
    parts, losses = input.new_empty((blocks, classes, features + 1)), input.new_empty(blocks + 1)
    loads = width(input, linear_weight, *([] if grad_input is None else [grad_input]))
    one = features <= 32 * loads
    kernel = WARP_PER_ROW[f"loss_and_gradients<{str(one).lower()}, {loads}>"]
    kernel[blocks, THREADS](
        *(input, linear_weight, linear_bias, target, None if grad_input is None else cuda.out(grad_input)),
        *(cuda.out(parts), cuda.out(losses), rows, features, classes, share, ignore_index),
    )

    def add(loss: torch.Tensor, dw: torch.Tensor, db: Optional) -> None:
        kernel = WARP_PER_ROW["add_parts"][cdiv(classes * (features + 1), 32) + 1, THREADS]
        written = cuda.out(dw), None if db is None else cuda.out(db), cuda.out(loss)
        kernel(parts, losses, *written, blocks, features, classes)

    gradients_aside(add, (loss, *sums), (parts, losses))


RUNGS = (
    make_rung(HERE, "k01_warp_per_row", "a warp keeps the softmax of its row for the gradients; a launch adds them",
              warp_per_row, dtypes=DTYPES, limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k01 for the layers of linear_cross_entropy's default."""
    return first_taking(SPEC, RUNGS, args, "k01_warp_per_row") if is_small(args[1]) else None
