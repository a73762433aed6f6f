"""The launcher of k01."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.fused import activation_number
from warpwise.operation import cdiv

THREAD_PER_COLUMN = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(
    outputs: tuple[torch.Tensor, torch.Tensor], grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str
) -> None:
    n = grad_output.shape[-1]
    m = math.prod(grad_output.shape[:-1])
    kind = activation_number(activation)
    kernel = THREAD_PER_COLUMN[f"activation_backward_column<{cuda.ctype(grad_output.dtype)}, {kind}>"]
    kernel[cdiv(n, 128), 128](grad_output, preactivation, cuda.out(outputs[0]), cuda.out(outputs[1]), m, n)
