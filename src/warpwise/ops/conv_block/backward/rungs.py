"""The ladder of conv_block_backward, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.conv2d.op import CONV2D_BACKWARD
from warpwise.ops.conv_block.forward import rungs as forward
from warpwise.ops.conv_block.spec import DTYPES

HERE = Path(__file__).parent
THREADS, BLOCKS_PER_SM, FEWEST_WINDOWS = 256, 4, 1024  # kThreads; windows of a block
SEPARATE = cuda.load(HERE / "k01_separate_passes.cu")
FUSED = cuda.load(HERE / "k02_fused.cu")
CONVOLUTION = ([1, 1], [1, 1], [1, 1], 1)  # stride, padding, dilation and groups


def limits(*args: Any) -> str | None:
    return forward.limits(*args[4:6])


def _convolution(rung: str, outputs: Any, d: torch.Tensor, *args: Any) -> None:
    """dx, if it is needed, and dw from the gradient ``d`` of the convolution."""
    dx, dw = outputs[:2]
    input, weight = args[4:6]
    settings = (*CONVOLUTION, dx is not None, True, False)
    CONV2D_BACKWARD.launch(CONV2D_BACKWARD.rung(rung), (dx, dw, None), d, input, weight, None, *settings)


def separate_passes(outputs: Any, *args: Any) -> None:
    dy, dmean, dvar, dconv, _, _, gamma, beta, eps, mean, var, y, _ = args
    dgamma, dbeta = outputs[2:]
    sizes = (*y.shape, eps)
    channels = SEPARATE["channel_gradients"][cdiv(y.shape[1], 32), 32]
    channels(y, dy, mean, var, gamma, beta, cuda.out(dgamma), cuda.out(dbeta), *sizes)
    d = torch.empty_like(y)
    if y.numel():
        kernel = SEPARATE["grad_convolved"][cdiv(y.numel(), THREADS), THREADS]
        kernel(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, dgamma, dbeta, cuda.out(d), *sizes)
    _convolution("k01_thread_per_element", outputs, d, *args)


def fused(outputs: Any, *args: Any) -> None:
    dy, dmean, dvar, dconv, _, _, gamma, beta, eps, mean, var, y, _ = args
    dgamma, dbeta = outputs[2:]
    n, k, h, w = y.shape
    sizes = (*y.shape, eps)
    windows = n * (h // 2) * (w // 2)
    parts = max(1, min(cdiv(BLOCKS_PER_SM * sm_count(y), k), cdiv(windows, FEWEST_WINDOWS)))
    partials, counters = y.new_empty((k, parts, 2)), semaphores(y, k)
    kernel = FUSED["channel_gradients"][(parts, k), THREADS]
    kernel(y, dy, mean, var, gamma, beta, cuda.out(dgamma), cuda.out(dbeta), partials, counters, *sizes)
    d = torch.empty_like(y)
    if y.numel():
        kernel = FUSED["grad_convolved"][cdiv(n * k * cdiv(h, 2) * cdiv(w, 2), THREADS), THREADS]
        kernel(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, dgamma, dbeta, cuda.out(d), *sizes)
    _convolution("k02_implicit_gemm", outputs, d, *args)


RUNGS = (
    make_rung(HERE, "k01_separate_passes", "a thread a channel, then a thread a pixel", separate_passes,
              dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k02_fused", "a window a thread, maxima recomputed, implicit GEMMs", fused, dtypes=DTYPES,
              limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k02, with the forward's rule."""
    return first_taking(RUNGS, args, "k02_fused") if args[4].shape[1] <= forward.MOST_CHANNELS else None
