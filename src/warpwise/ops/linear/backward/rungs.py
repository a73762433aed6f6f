"""The ladder of activation_backward, slowest idea first, and its launchers."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.limits import MAX_SIZE
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops.linear.spec import ACTIVATIONS, KERNEL_DTYPES

HERE = Path(__file__).parent
THREAD_PER_COLUMN = cuda.load(HERE / "k01_thread_per_column.cu")
ROWS, COLUMNS = 16, 128  # of a program's block
ROW_BLOCKS_PER_SM = 8  # resident programs of 4 warps


def limits(grad_output: torch.Tensor, *rest: object) -> str | None:
    """Rows and columns are 32 bits."""
    n = grad_output.shape[-1]
    m = math.prod(grad_output.shape[:-1])
    return f"takes up to {MAX_SIZE} rows and columns, not {m} and {n}" if max(m, n) > MAX_SIZE else None


def thread_per_column(
    outputs: tuple[torch.Tensor, torch.Tensor], grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str
) -> None:
    n = grad_output.shape[-1]
    m = math.prod(grad_output.shape[:-1])
    kind = ACTIVATIONS.index(activation) + 1
    kernel = THREAD_PER_COLUMN[f"activation_backward_column<{cuda.ctype(grad_output.dtype)}, {kind}>"]
    kernel[cdiv(n, 128), 128](grad_output, preactivation, cuda.out(outputs[0]), cuda.out(outputs[1]), m, n)


def triton_row_blocks(
    outputs: tuple[torch.Tensor, torch.Tensor], grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str
) -> None:
    from warpwise.ops.linear.backward.k02_triton_row_blocks import activation_backward_row_blocks, column_sums

    result, bias = outputs
    n = grad_output.shape[-1]
    m = math.prod(grad_output.shape[:-1])
    wanted = cdiv(ROW_BLOCKS_PER_SM * sm_count(grad_output), cdiv(n, COLUMNS))
    blocks = max(1, cdiv(m, ROWS))  # of no rows one, which stores sums of 0
    steps = cdiv(blocks, min(wanted, 65535))
    strips = cdiv(blocks, steps)
    partial = torch.empty((strips, n), dtype=torch.float32, device=grad_output.device)
    activation_backward_row_blocks[(cdiv(n, COLUMNS), strips)](
        grad_output,
        preactivation,
        result,
        partial,
        m,
        n,
        steps,
        ACTIVATION=activation,
        BLOCK_M=ROWS,
        BLOCK_N=COLUMNS,
        num_warps=4,
    )
    column_sums[(cdiv(n, 32),)](partial, bias, strips, n, BLOCK_M=32, BLOCK_N=32, num_warps=4)


RUNGS = (
    make_rung(
        HERE,
        "k01_thread_per_column",
        "one thread a column, gradient and sum in one pass",
        thread_per_column,
        dtypes=KERNEL_DTYPES,
        limits=limits,
    ),
    make_rung(
        HERE,
        "k02_triton_row_blocks",
        "strips of rows in Triton, partial sums added by a second kernel",
        triton_row_blocks,
        dtypes=KERNEL_DTYPES,
        limits=limits,
    ),
)


def default(grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str) -> str | None:
    """k02; PyTorch for float64 and huge sizes."""
    refused = grad_output.dtype not in KERNEL_DTYPES or limits(grad_output)
    return None if refused else "k02_triton_row_blocks"
