"""The ladder of activation_backward, slowest idea first."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.fused import activation_number
from warpwise.gemm.limits import MAX_SIZE
from warpwise.gemm.operands import KERNEL_DTYPES
from warpwise.operation import cdiv, lazy_launch, make_rung

HERE = Path(__file__).parent
FEW_ROWS, THREADS, COLUMNS = 128, 512, 32  # rows of k02's default; kThreads; columns of a block
ONE_LAUNCH = cuda.load(HERE / "k02_few_rows.cu")


def few_rows(
    outputs: tuple[torch.Tensor, torch.Tensor], grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str
) -> None:
    n = grad_output.shape[-1]
    m = math.prod(grad_output.shape[:-1])
    kind = activation_number(activation)
    kernel = ONE_LAUNCH[f"activation_backward_few_rows<{cuda.ctype(grad_output.dtype)}, {kind}>"]
    kernel[cdiv(n, COLUMNS), THREADS](grad_output, preactivation, cuda.out(outputs[0]), cuda.out(outputs[1]), m, n)


def limits(grad_output: torch.Tensor, *rest: object) -> str | None:
    """Rows and columns are 32 bits."""
    n = grad_output.shape[-1]
    m = math.prod(grad_output.shape[:-1])
    return f"takes up to {MAX_SIZE} rows and columns, not {m} and {n}" if max(m, n) > MAX_SIZE else None


RUNGS = (
    make_rung(HERE, "k01_triton_row_blocks", "blocks of rows in Triton, partial sums added by a second kernel",
              lazy_launch(f"{__package__}.k01_triton_row_blocks"), dtypes=KERNEL_DTYPES, limits=limits),
    make_rung(HERE, "k02_few_rows", "few rows: a block takes 32 columns of all rows, one launch", few_rows,
              dtypes=KERNEL_DTYPES, limits=limits),
)  # fmt: skip


def default(grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str) -> str | None:
    """k02 for few rows, else k01; PyTorch for float64 and huge sizes."""
    if grad_output.dtype not in KERNEL_DTYPES or limits(grad_output):
        return None
    return "k02_few_rows" if math.prod(grad_output.shape[:-1]) <= FEW_ROWS else "k01_triton_row_blocks"
