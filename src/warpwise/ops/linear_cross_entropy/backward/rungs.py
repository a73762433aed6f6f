"""The ladder of linear_cross_entropy_backward, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops.linear_cross_entropy.forward.rungs import ROWS, THREADS, WARPS, is_small, width
from warpwise.ops.linear_cross_entropy.spec import BACKWARD, DTYPES, Gradients, Optional

HERE = Path(__file__).parent
GROUP, COLUMNS = 16, 32  # kGroup, kColumns
FEW_ROWS, CHUNK = 256, 128  # rows summed by one block in one launch; rows of a chunk at least
MAX_ELEMENTS = 2**30  # of an input, a weight and the probabilities: a grid has 32 bits
THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
ONE_LAUNCH = cuda.load(HERE / "k02_one_launch.cu")
IN_C = function(HERE / "k03_c.c", "linear_cross_entropy_backward", "pppppppppllll")


def limits(grad_loss: Optional, grad_probabilities: Optional, input: torch.Tensor, *rest: Any) -> str | None:
    if grad_loss is None or grad_probabilities is not None:
        return "takes a gradient of the loss, and none of the probabilities"
    (rows, features), classes = input.shape, len(rest[0])
    most = max(rows * features, rows * classes, (features + 1) * classes)
    return f"takes up to {MAX_ELEMENTS} elements, not {most}" if most > MAX_ELEMENTS else None


def limits_of_tiles(grad_loss: Optional, grad_probabilities: Optional, input: torch.Tensor, *rest: Any) -> str | None:
    if not input.shape[1]:
        return "takes one feature or more, not 0"
    return limits(grad_loss, grad_probabilities, input, *rest)


def thread_per_element(
    outputs: Gradients,
    grad_loss: torch.Tensor,
    _: None,
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
    probabilities: torch.Tensor,
    count: torch.Tensor,
    needs_input: bool,
) -> None:
    (rows, features), classes = input.shape, len(linear_weight)
    given, sizes = (grad_loss, probabilities, target, count), (rows, features, classes, ignore_index)
    grad_input, grad_weight, grad_bias = outputs
    if grad_input is not None and grad_input.numel():
        kernel = THREAD_PER_ELEMENT["input_gradient"][cdiv(grad_input.numel(), THREADS), THREADS]
        kernel(*given, linear_weight, cuda.out(grad_input), *sizes)
    if grad_weight is not None and grad_weight.numel():
        kernel = THREAD_PER_ELEMENT["weight_gradient"][cdiv(grad_weight.numel(), THREADS), THREADS]
        kernel(*given, input, cuda.out(grad_weight), *sizes)
    if grad_bias is not None:
        kernel = THREAD_PER_ELEMENT["bias_gradient"][cdiv(classes, THREADS), THREADS]
        kernel(*given, cuda.out(grad_bias), rows, classes, ignore_index)


def one_launch(
    outputs: Gradients,
    grad_loss: torch.Tensor,
    _: None,
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
    probabilities: torch.Tensor,
    count: torch.Tensor,
    needs_input: bool,
) -> None:
    (rows, features), classes = input.shape, len(linear_weight)
    grad_input, *sums = (None if one is None else cuda.out(one) for one in outputs)
    of_warp = ROWS if rows >= ROWS * WARPS * sm_count(input) else 1
    input_blocks = cdiv(rows, of_warp * WARPS) if outputs[0] is not None else 0
    blocks = (features // COLUMNS + 1) * cdiv(classes, GROUP)
    chunks, chunk_rows = 1, max(1, rows)
    if rows > FEW_ROWS:
        chunks = min(cdiv(rows, CHUNK), max(1, cdiv(4 * sm_count(input), blocks)))
        chunk_rows = cdiv(cdiv(rows, chunks), CHUNK) * CHUNK
        chunks = cdiv(rows, chunk_rows)
    parts = input.new_empty((chunks, classes, features + 1)) if chunks > 1 else None
    written = [one for one in outputs if one is not None]
    loads = width(linear_weight, *(written[:1] if outputs[0] is not None else ()))
    ONE_LAUNCH[f"linear_cross_entropy_backward<{of_warp}, {loads}>"][input_blocks + chunks * blocks, THREADS](
        *(grad_loss, probabilities, target, count, input, linear_weight, grad_input),
        *(sums if parts is None else (None, None)),
        *(None if parts is None else cuda.out(parts), rows, features, classes, input_blocks, chunk_rows, ignore_index),
    )
    if parts is not None:
        grid = cdiv(classes * (features + 1), COLUMNS), THREADS
        ONE_LAUNCH["add_chunks"][grid](parts, *sums, chunks, features, classes)


def in_c(outputs: Gradients, *args: Any) -> None:
    grad_loss, _, input, linear_weight, target, _, ignore_index, probabilities, count, _ = args
    sizes = *input.shape, len(linear_weight), ignore_index
    IN_C(grad_loss, input, linear_weight, target, probabilities, count, *outputs, *sizes)


RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread per element of each gradient", thread_per_element,
              dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k02_one_launch", "all gradients in one launch; a second adds the sums of many rows", one_launch,
              dtypes=DTYPES, limits=limits_of_tiles),
    Rung("k03_c", "the definition in C", "c", in_c, HERE / "k03_c.c", dtypes=DTYPES, limits=limits, devices=("cpu",)),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k02 for the layers of the forward's default."""
    return first_taking(BACKWARD, RUNGS, args, "k02_one_launch") if is_small(args[3]) else None
