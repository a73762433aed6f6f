"""The ladder of avg_pool2d_backward, slowest idea first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung
from warpwise.ops._defaults import first_taking
from warpwise.ops._windows import MOST_PIXELS, Pair
from warpwise.ops.avg_pool2d.spec import DTYPES

HERE = Path(__file__).parent
THREADS = 256
THREAD_PER_PIXEL = cuda.load(HERE / "k01_thread_per_pixel.cu")
HALVED = cuda.load(HERE / "k02_halved.cu")


def limits(
    grad_output: torch.Tensor, shape_input: Sequence[int], kernel: Pair, stride: Pair, padding: Pair, counts: bool
) -> str | None:
    count = math.prod(shape_input)
    return f"takes tensors of up to {MOST_PIXELS} elements, not {count}" if count > MOST_PIXELS else None


def halved_limits(
    grad_output: torch.Tensor, shape_input: Sequence[int], kernel: Pair, stride: Pair, padding: Pair, counts: bool
) -> str | None:
    if not (tuple(kernel) == tuple(stride) == (2, 2) and tuple(padding) == (0, 0)):
        return "takes windows of 2 x 2 side by side"
    if shape_input[3] % 2:
        return f"takes rows of an even number of elements, not {shape_input[3]}"
    return limits(grad_output, shape_input, kernel, stride, padding, counts)


def thread_per_pixel(
    grad_input: torch.Tensor,
    grad_output: torch.Tensor,
    shape_input: Sequence[int],
    kernel_size: Pair,
    stride: Pair,
    padding: Pair,
    counts: bool,
) -> None:
    kernel = THREAD_PER_PIXEL["avg_pool2d_backward"][cdiv(grad_input.numel(), THREADS), THREADS]
    sizes = (grad_input.numel(), *grad_input.shape[2:], *grad_output.shape[2:])
    kernel(grad_output, cuda.out(grad_input), *sizes, *kernel_size, *stride, *padding, counts)


def halved(grad_input: torch.Tensor, grad_output: torch.Tensor, shape_input: Sequence[int], *settings: object) -> None:
    n, c, h, w = grad_input.shape
    rows = n * c * cdiv(h, 2)
    kernel = HALVED["avg_pool2d_backward_halved"][cdiv(rows * (w // 2), THREADS), THREADS]
    kernel(grad_output, cuda.out(grad_input), rows, h, w)


RUNGS = (
    make_rung(HERE, "k01_thread_per_pixel", "one thread per pixel of the input", thread_per_pixel, dtypes=DTYPES,
              limits=limits),
    make_rung(HERE, "k02_halved", "2 x 2 windows side by side, 8-byte stores", halved, dtypes=DTYPES,
              limits=halved_limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k02 for 2 x 2 windows side by side, that is, with stride 2; PyTorch for others, because k01 is not timed."""
    return first_taking(RUNGS, args, "k02_halved")
