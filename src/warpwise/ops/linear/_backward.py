"""Launchers of the activation's backward."""

from __future__ import annotations

import math

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops._tiles import SIDE
from warpwise.ops.linear._launch import HERE
from warpwise.ops.linear.spec import ACTIVATIONS

THREAD_PER_COLUMN = cuda.load(HERE / "k01_backward_thread_per_column.cu")
ROWS, COLUMNS = 16, 128  # of a program's block
STRIPS_PER_SM = 8  # programs of 4 warps that an SM holds at once


def too_large(grad_output: torch.Tensor, *rest: object) -> str | None:
    n = grad_output.shape[-1]
    m = math.prod(grad_output.shape[:-1])
    return f"takes up to {SIDE} rows and columns, not {m} and {n}" if max(m, n) > SIDE else None


def thread_per_column(
    outputs: tuple[torch.Tensor, torch.Tensor], grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str
) -> None:
    n = grad_output.shape[-1]
    m = math.prod(grad_output.shape[:-1])
    kind = ACTIVATIONS.index(activation) + 1
    kernel = THREAD_PER_COLUMN[f"activation_backward_column<{cuda.ctype(grad_output.dtype)}, {kind}>"]
    kernel[cdiv(n, 128), 128](grad_output, preactivation, cuda.out(outputs[0]), cuda.out(outputs[1]), m, n)


def triton_strips(
    outputs: tuple[torch.Tensor, torch.Tensor], grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str
) -> None:
    from warpwise.ops.linear.k02_backward_triton_strips import activation_backward_strips, column_sums

    result, bias = outputs
    n = grad_output.shape[-1]
    m = math.prod(grad_output.shape[:-1])
    wanted = cdiv(STRIPS_PER_SM * multiprocessors(grad_output), cdiv(n, COLUMNS))
    steps = cdiv(cdiv(m, ROWS), min(wanted, 65535))
    strips = cdiv(cdiv(m, ROWS), steps)
    partial = torch.empty((strips, n), dtype=torch.float32, device=grad_output.device)
    activation_backward_strips[(cdiv(n, COLUMNS), strips)](
        grad_output, preactivation, result, partial, m, n, steps,
        ACTIVATION=activation, BLOCK_M=ROWS, BLOCK_N=COLUMNS, num_warps=4,
    )  # fmt: skip
    column_sums[(cdiv(n, 32),)](partial, bias, strips, n, BLOCK_M=32, BLOCK_N=32, num_warps=4)
