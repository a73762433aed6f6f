"""The ladder of mlp_cross_entropy_gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.branch import gradients_aside
from warpwise.gemm.limits import HOPPER_SHARED, requires_hopper
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.linear_backward.op import LINEAR_BACKWARD
from warpwise.ops.linear_cross_entropy.mlp.spec import Results
from warpwise.ops.linear_cross_entropy.spec import DTYPES, Optional

HERE = Path(__file__).parent
THREADS, WARPS, CLASSES = 256, 8, 16  # kThreads, kWarps, kClasses
BLOCKS = ROWS = 8  # kBlocks, kRows
MOST_UNITS, MOST_ROWS = 256, 2**14  # a lane has up to 8 units; each block counts all targets
STATIC = 1024  # bytes, more than the static shared memory of a block
DEFAULT_ROWS = 256  # up to which it is the default
CLUSTER = cuda.load(HERE / "k01_cluster.cu")


def share(features: int) -> int:
    """Groups of four columns of a block."""
    return cdiv(features // 4, BLOCKS)


def shared_bytes(features: int, units: int) -> int:
    """Dynamic shared memory: the weight, a tile of rows, the last weight, and what the blocks exchange and add."""
    quads, padded = share(features), cdiv(units, 32) * 32
    parts = max(WARPS * ROWS * padded, max(1, THREADS // quads) * ROWS * quads * 4)
    return 4 * ((padded + ROWS) * 4 * (quads | 1) + (CLASSES + BLOCKS + ROWS) * padded + parts)


def limits(
    input: torch.Tensor, hidden_weight: torch.Tensor, hidden_bias: Optional, linear_weight: torch.Tensor, *rest: Any
) -> str | None:
    (rows, features), (units, classes) = input.shape, linear_weight.shape[::-1]
    if rows > MOST_ROWS or units > MOST_UNITS or classes > CLASSES or not rows * units:
        return (
            f"takes 1 to {MOST_ROWS} rows, {MOST_UNITS} hidden units and {CLASSES} classes, "
            f"not {rows}, {units} and {classes}"
        )
    if not features or features % 4 or input.data_ptr() % 16 or hidden_weight.data_ptr() % 16:
        return "takes a multiple of four features, and input and hidden_weight aligned to 16 bytes"
    if shared_bytes(features, units) + STATIC > HOPPER_SHARED:
        return f"keeps the weight in the shared memory of eight blocks, which {features} x {units} exceeds"
    return requires_hopper(input, "clusters exist from there on")


def cluster(
    outputs: Results,
    input: torch.Tensor,
    hidden_weight: torch.Tensor,
    hidden_bias: Optional,
    linear_weight: torch.Tensor,
    linear_bias: Optional,
    target: torch.Tensor,
    ignore_index: int,
    needs_input: bool,
    settled: bool,
) -> None:
    loss, grad_input, *of_hidden, of_weight, of_bias = outputs
    (rows, features), (classes, units) = input.shape, linear_weight.shape
    hidden, d_hidden = input.new_empty((rows, units)), input.new_empty((rows, units))
    d_logits, losses = input.new_empty((rows, classes)), input.new_empty(rows + 1)
    clusters = max(1, min(cdiv(rows, ROWS), sm_count(input) // BLOCKS))
    kernel = CLUSTER[f"loss_and_gradients<{cdiv(units, 32)}>"]
    kernel[clusters * BLOCKS, THREADS, shared_bytes(features, units)](
        *(input, hidden_weight, hidden_bias, linear_weight, linear_bias, target),
        *(cuda.out(each) for each in (hidden, d_hidden, d_logits)),
        *(None if grad_input is None else cuda.out(grad_input), cuda.out(losses)),
        *(rows, features, units, classes, share(features), ignore_index, settled),
    )

    def add(loss: torch.Tensor, of_weight: torch.Tensor, of_bias: Optional) -> None:
        kernel = CLUSTER["last_layer"][(cdiv(units + 1, 32), classes + 1), THREADS]
        written = cuda.out(of_weight), None if of_bias is None else cuda.out(of_bias), cuda.out(loss)
        kernel(d_logits, hidden, losses, *written, rows, units, classes)

    def multiply(of_weight: torch.Tensor, of_bias: Optional) -> None:
        bias = input.new_empty(units) if of_bias is None else of_bias
        args = d_hidden, input, hidden_weight, None, False
        LINEAR_BACKWARD.launch(LINEAR_BACKWARD.rung("k03_k_groups"), (None, of_weight, bias), *args)

    gradients_aside(add, (loss, of_weight, of_bias), (d_logits, hidden, losses))
    gradients_aside(multiply, of_hidden, (d_hidden, input), postponed=True)


RUNGS = (
    make_rung(HERE, "k01_cluster", "a cluster keeps the first weight in shared memory for the forward and dx",
              cluster, dtypes=DTYPES, limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k01 for few rows: with more, the launches that it replaces fill the GPU."""
    few = len(args[0]) <= DEFAULT_ROWS and args[0].dtype in DTYPES
    return first_taking(RUNGS, args, "k01_cluster") if few else None
