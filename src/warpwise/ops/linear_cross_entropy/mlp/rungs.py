"""The ladder of mlp_cross_entropy_gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.branch import gradients_aside
from warpwise.cuda.gpu.known import tell, told
from warpwise.gemm.limits import requires_ampere
from warpwise.gemm.operands import flags
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.conv_block.spec import CHANNEL_SUMS, POOLED, Pooled
from warpwise.ops.linear_backward.op import LINEAR_BACKWARD
from warpwise.ops.linear_cross_entropy.gradients import rungs as last_layer
from warpwise.ops.linear_cross_entropy.mlp.spec import Results
from warpwise.ops.linear_cross_entropy.spec import DTYPES, Optional

HERE = Path(__file__).parent
THREADS, WARPS, ROWS, COLUMNS, QUAD = 256, 8, 32, 64, 128  # kThreads, kWarps, kRows, kColumns, kQuad
CLASSES = last_layer.MOST_CLASSES
MOST_UNITS = 2 * QUAD
OF_WEIGHT = "k03_k_groups"
TILES = cuda.load(HERE / "k01_loss_in_each_tile.cu")


def limits(
    input: torch.Tensor, hidden: torch.Tensor, hidden_weight: torch.Tensor, linear_weight: torch.Tensor, *rest: Any
) -> str | None:
    units, features = hidden_weight.shape
    if not 0 < units <= MOST_UNITS or units % 4 or not features or features % 4:
        return f"takes multiples of four features and up to {MOST_UNITS} hidden units, not {features} and {units}"
    if any(tensor.data_ptr() % 16 for tensor in (input, hidden, hidden_weight, linear_weight)):
        return "takes matrices aligned to 16 bytes"
    of_hidden = LINEAR_BACKWARD.rung(OF_WEIGHT).limits(hidden, input, hidden_weight)
    return last_layer.limits(hidden, linear_weight) or of_hidden or requires_ampere(input)


def loss_in_each_tile(
    outputs: Results,
    input: torch.Tensor,
    hidden: torch.Tensor,
    hidden_weight: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
    needs_input: bool,
    settled: bool,
) -> None:
    loss, grad_input, of_hidden, of_hidden_bias, of_weight, of_bias = outputs
    (rows, features), (classes, units) = input.shape, linear_weight.shape
    d_hidden = torch.empty_like(hidden)

    made: list[last_layer.Add] = []

    def parts_of_last_layer(*outputs: Any) -> None:
        args = d_hidden, hidden, linear_weight, target, linear_bias, ignore_index
        made.append(last_layer.loss_and_parts(*args)[0])

    def of_hidden_layer(*outputs: Any) -> None:
        args = d_hidden, input, hidden_weight, hidden, False
        LINEAR_BACKWARD.launch(LINEAR_BACKWARD.rung(OF_WEIGHT), (None, *outputs), *args)

    gradients_aside(parts_of_last_layer, (), (d_hidden, hidden), second=True)
    if grad_input is not None:
        padded = cdiv(units, QUAD) * QUAD
        operands = padded * (ROWS + COLUMNS) + (padded + 4) * (CLASSES + ROWS)
        shared = 4 * max(operands, WARPS * ROWS * COLUMNS)
        block = _pooled(input)
        kernel = TILES[f"gradient_of_input<{padded}, {flags(settled, block is not None)}>"]
        kernel[cdiv(rows, ROWS) * cdiv(features, COLUMNS), THREADS, shared](
            *(hidden, hidden_weight, linear_weight, linear_bias, target, cuda.out(grad_input)),
            *(rows, features, units, classes, ignore_index, *_sums(block, input, grad_input)),
        )
    gradients_aside(made[0], (loss, of_weight, of_bias), made, postponed=True)
    gradients_aside(of_hidden_layer, (of_hidden, of_hidden_bias), (d_hidden, input, hidden), True, second=True)


def _pooled(input: torch.Tensor) -> Pooled | None:
    """The block of which ``input`` is the output."""
    block: Pooled | None = told(POOLED, input)
    if block is None:
        return None
    n, k, h, w = block.convolved.shape
    return block if input.shape == (n, k * (h // 2) * (w // 2)) else None


def _sums(block: Pooled | None, input: torch.Tensor, grad_input: torch.Tensor) -> tuple[Any, ...]:
    """The arguments for the sums of the block's channels, which are told about ``grad_input``."""
    if block is None:
        return None, None, None, None, None, None, None, 0, 0, 0, 0.0
    k, h, w = block.convolved.shape[1:]
    span = ((h // 2) * (w // 2) + COLUMNS - 2) // COLUMNS + 1  # tiles of a channel at most
    sums = input.new_empty((k, cdiv(len(input), ROWS) * span, 2))
    tell(CHANNEL_SUMS, grad_input, sums)
    return (input, *block[:-1], cuda.out(sums), h, w, span, block.eps)


RUNGS = (
    make_rung(HERE, "k01_loss_in_each_tile", "each tile of dx computes the loss's gradient of its rows",
              loss_in_each_tile, dtypes=DTYPES, limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k01 for up to a row and two tiles per SM: more tiles repeat more of the loss than a launch takes."""
    input, sms = args[0], sm_count(args[0])
    few = len(input) <= sms and cdiv(len(input), ROWS) * cdiv(input.shape[1], COLUMNS) <= 2 * sms
    return first_taking(RUNGS, args, "k01_loss_in_each_tile") if few and input.dtype in DTYPES else None
