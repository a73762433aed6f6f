"""The ladder of linear_cross_entropy, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.device.limits import requires_hopper
from warpwise.operation import Rung, cdiv, lazy_launch, make_rung, sm_count
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops.linear_cross_entropy.spec import DTYPES, SPEC, Optional, Three

HERE = Path(__file__).parent
THREADS, WARPS = 256, 8
MAX_CLASSES, MAX_FEATURES = 16, 512  # up to which a kernel is the default: PyTorch's GEMM is faster beyond
MAX_ROWS = 2**24  # counts are summed in float32, exactly
TRITON_CLASSES = 256  # most classes of k05
ROWS = 4  # rows of a warp, where every SM gets a block
THREAD_PER_ROW = cuda.load(HERE / "k01_thread_per_row.cu")
WARP_PER_ROW = cuda.load(HERE / "k03_warp_per_row.cu")
CLUSTER = cuda.load(HERE / "k04_cluster.cu")
CLUSTER_BLOCKS, CLUSTER_THREADS, CLUSTER_ROWS = 8, 512, 128  # k04: its cluster, and its rows if a warp computes one
IN_C = function(HERE / "k02_c.c", "linear_cross_entropy", "pppppppllll")


def limits(input: torch.Tensor, *rest: object) -> str | None:
    return f"takes up to {MAX_ROWS} rows, not {input.shape[0]}" if input.shape[0] > MAX_ROWS else None


def is_small(linear_weight: torch.Tensor) -> bool:
    """True if the layer is launch-bound, so that the kernels are faster than PyTorch's GEMM and loss."""
    return linear_weight.shape[0] <= MAX_CLASSES and linear_weight.shape[1] <= MAX_FEATURES


def cluster_limits(input: torch.Tensor, linear_weight: torch.Tensor, *rest: object) -> str | None:
    rows, classes = len(input), len(linear_weight)
    if rows > 2 * CLUSTER_ROWS or classes > MAX_CLASSES:
        return f"takes up to {2 * CLUSTER_ROWS} rows and {MAX_CLASSES} classes, not {rows} and {classes}"
    return requires_hopper(input, "older GPUs have no clusters")


def width(*operands: torch.Tensor) -> int:
    """Floats of a load along the features: 4 if every row begins at a multiple of 16 bytes."""
    return 1 if operands[0].shape[1] % 4 or any(operand.data_ptr() % 16 for operand in operands) else 4


def thread_per_row(
    outputs: Three,
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
) -> None:
    loss, probabilities, count = outputs
    (rows, features), classes = input.shape, len(linear_weight)
    losses = input.new_empty(rows)
    if rows:
        THREAD_PER_ROW["row_losses"][cdiv(rows, THREADS), THREADS](
            *(input, linear_weight, linear_bias, target, cuda.out(probabilities), cuda.out(losses)),
            *(rows, features, classes, ignore_index),
        )
    THREAD_PER_ROW["mean_of_losses"][1, 1](losses, target, cuda.out(loss), cuda.out(count), rows, ignore_index)


def in_c(
    outputs: Three,
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
) -> None:
    IN_C(input, linear_weight, linear_bias, target, *outputs, *input.shape, len(linear_weight), ignore_index)


def warp_per_row(
    outputs: Three,
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
) -> None:
    loss, probabilities, count = outputs
    (rows, features), classes = input.shape, len(linear_weight)
    of_warp = ROWS if rows >= ROWS * WARPS * sm_count(input) else 1
    blocks = max(1, cdiv(rows, of_warp * WARPS))
    several = blocks > 1
    sums = input.new_empty((2, blocks)) if several else (None, None)
    WARP_PER_ROW[f"linear_cross_entropy<{of_warp}, {width(input, linear_weight)}>"][blocks, THREADS](
        *(input, linear_weight, linear_bias, target, cuda.out(probabilities)),
        *(sums[0], sums[1], semaphores(input, 1) if several else None),
        *(cuda.out(loss), cuda.out(count), rows, features, classes, ignore_index),
    )


def cluster(
    outputs: Three,
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
) -> None:
    loss, probabilities, count = outputs
    (rows, features), classes = input.shape, len(linear_weight)
    of_warp = 1 if rows <= CLUSTER_ROWS else 2
    kernel = CLUSTER[f"linear_cross_entropy<{of_warp}, {width(input, linear_weight)}>"]
    kernel[CLUSTER_BLOCKS, CLUSTER_THREADS](
        *(input, linear_weight, linear_bias, target, cuda.out(probabilities), cuda.out(loss), cuda.out(count)),
        *(rows, features, classes, ignore_index),
    )


triton = lazy_launch(f"{__package__}.k05_triton")


def triton_limits(input: torch.Tensor, linear_weight: torch.Tensor, *rest: object) -> str | None:
    if len(linear_weight) > TRITON_CLASSES:
        return f"takes up to {TRITON_CLASSES} classes, whose logits stay in registers, not {len(linear_weight)}"
    return limits(input)


RUNGS = (
    make_rung(HERE, "k01_thread_per_row", "one thread per row, then one thread for the mean", thread_per_row,
              dtypes=DTYPES, limits=limits),
    Rung("k02_c", "the definition in C", "c", in_c, HERE / "k02_c.c", dtypes=DTYPES, devices=("cpu",)),
    make_rung(HERE, "k03_warp_per_row", "lanes along features, 16 classes at once, softmax in registers, one launch",
              warp_per_row, dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k04_cluster", "Hopper, few rows: one cluster, losses added through distributed shared memory",
              cluster, dtypes=DTYPES, limits=cluster_limits),
    make_rung(HERE, "k05_triton", "a block of rows and all classes per program in Triton", triton, dtypes=DTYPES,
              limits=triton_limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k04 for few rows, classes and features, k03 for more rows; PyTorch for others."""
    return first_taking(SPEC, RUNGS, args, "k04_cluster", "k03_warp_per_row") if is_small(args[1]) else None
