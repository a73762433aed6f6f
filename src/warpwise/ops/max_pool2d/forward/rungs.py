"""The ladder of max_pool2d, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import Rung, cdiv, make_rung
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops._windows import Pair, limits
from warpwise.ops.max_pool2d.spec import DTYPES, Two

HERE = Path(__file__).parent
THREADS = 256
THREAD_PER_WINDOW = cuda.load(HERE / "k01_thread_per_window.cu")
HALVED = cuda.load(HERE / "k03_halved.cu")
IN_C = function(HERE / "k02_c.c", "max_pool2d", "pppl" + 10 * "l")


def halved_limits(input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair) -> str | None:
    if not (tuple(kernel_size) == tuple(stride) == (2, 2) and tuple(padding) == (0, 0)):
        return "takes windows of 2 x 2 side by side"
    if input.shape[3] % 2 or input.data_ptr() % 8:
        return f"takes rows of an even number of elements at multiples of 8 bytes, not {input.shape[3]}"
    return limits(input)


def thread_per_window(outputs: Two, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair) -> None:
    output, indices = outputs
    kernel = THREAD_PER_WINDOW["max_pool2d"][cdiv(output.numel(), THREADS), THREADS]
    sizes = (output.numel(), *input.shape[2:], *output.shape[2:])
    kernel(input, cuda.out(output), cuda.out(indices), *sizes, *kernel_size, *stride, *padding)


def in_c(outputs: Two, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair) -> None:
    output, indices = outputs
    planes = input.shape[0] * input.shape[1]
    IN_C(input, output, indices, planes, *input.shape[2:], *output.shape[2:], *kernel_size, *stride, *padding)


def halved(outputs: Two, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair) -> None:
    output, indices = outputs
    rows = output.numel() // output.shape[3]
    kernel = HALVED["max_pool2d_halved"][cdiv(output.numel(), THREADS), THREADS]
    kernel(input, cuda.out(output), cuda.out(indices), rows, *input.shape[2:], *output.shape[2:])


RUNGS = (
    make_rung(HERE, "k01_thread_per_window", "one thread per window", thread_per_window, dtypes=DTYPES, limits=limits),
    Rung("k02_c", "the definition in C", "c", in_c, HERE / "k02_c.c", dtypes=DTYPES, devices=("cpu",)),
    make_rung(HERE, "k03_halved", "2 x 2 windows side by side, 8-byte loads", halved, dtypes=DTYPES,
              limits=halved_limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k03 for 2 x 2 windows side by side, else k01: PyTorch takes 1.5 to 2.2 times as long."""
    return first_taking(RUNGS, args, "k03_halved", "k01_thread_per_window")
