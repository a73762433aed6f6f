"""The ladder of conv_block_backward, slowest idea first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.gemm.limits import requires_hopper
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._conv3x3 import add_parts, each, flags, groups, output_tile, row_limits, weights
from warpwise.ops._conv3x3_mma import mma_limits
from warpwise.ops._defaults import first_taking
from warpwise.ops.conv2d.op import CONV2D_BACKWARD
from warpwise.ops.conv_block.backward import k06_tensor_cores
from warpwise.ops.conv_block.forward import rungs as forward
from warpwise.ops.conv_block.spec import DTYPES

HERE = Path(__file__).parent
THREADS, BLOCKS_PER_SM, FEWEST_WINDOWS = 256, 4, 1024  # kThreads; windows of a block
MOST_PARTS = 32  # blocks of a channel in k03
SEPARATE = cuda.load(HERE / "k01_separate_passes.cu")
FUSED = cuda.load(HERE / "k02_fused.cu")
DIRECT = cuda.load(HERE / "k03_direct_tiles.cu")
CONVOLUTION = ([1, 1], [1, 1], [1, 1], 1)  # stride, padding, dilation and groups


def limits(*args: Any) -> str | None:
    return forward.limits(*args[4:6])


def direct_limits(*args: Any) -> str | None:
    return row_limits(args[4]) or limits(*args)


def mma_sync_limits(*args: Any) -> str | None:
    return mma_limits(args[4]) or limits(*args)


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


def _pairs(y: torch.Tensor, dconv: torch.Tensor | None) -> bool:
    """True if each row of a window is one 8-byte load."""
    return y.shape[3] % 2 == 0 and all(tensor.data_ptr() % 8 == 0 for tensor in (y, dconv) if tensor is not None)


def _channel_parts(*args: Any) -> torch.Tensor:
    """The parts, (K, parts, 2), of the sums of the gradient of the normalised values, and of that times the value."""
    dy, _, _, dconv, _, _, gamma, beta, eps, mean, var, y, _ = args
    n, k, h, w = y.shape
    parts = max(1, min(cdiv(BLOCKS_PER_SM * sm_count(y), k), cdiv(n * (h // 2) * (w // 2), FEWEST_WINDOWS), MOST_PARTS))
    sums = y.new_empty((k, parts, 2))
    kernel = DIRECT[f"channel_parts<{flags(_pairs(y, dconv))}>"][(parts, k), THREADS]
    kernel(y, dy, mean, var, gamma, beta, cuda.out(sums), *y.shape, eps)
    return sums


def direct_tiles(outputs: Any, *args: Any) -> None:
    dy, dmean, dvar, dconv, x, weight, gamma, beta, eps, mean, var, y, _ = args
    dx, dw, dgamma, dbeta = outputs
    n, k, h, w = y.shape
    c = x.shape[1]
    if not y.numel():
        fused(outputs, *args)
        return
    sums = _channel_parts(*args)
    four, channels = groups(c), each(c)
    plan, tile = weights(n, c, h, w, k, sm_count(y)), output_tile(c, h, w, channels)
    partials = y.new_empty((plan.parts, dw.numel()))
    inputs = n * tile.bands * tile.sides * cdiv(c, four * channels) if dx is not None else 0
    shared = max(plan.tile.shared, tile.shared if inputs else 0)
    switches = flags(dx is not None, _pairs(y, dconv), dconv is not None)
    gradients = DIRECT[f"gradients<{plan.channels}, {plan.filters}, {channels}, {switches}>"]
    gradients[plan.blocks + inputs, THREADS, shared](
        *(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, sums.shape[1], x, weight),
        *(None if dx is None else cuda.out(dx), cuda.out(dgamma), cuda.out(dbeta), cuda.out(partials)),
        *(n, c, h, w, k, eps, plan.blocks, plan.share, plan.tile.rows, plan.tile.strips, tile.rows, tile.strips),
    )
    add_parts(DIRECT, partials, dw)


def warpgroup_limits(*args: Any) -> str | None:
    return requires_hopper(args[4]) or mma_sync_limits(*args) or k06_tensor_cores.warpgroup_limits(*args[4:6])


def _on_tensor_cores(gradients: Callable[..., torch.Tensor], outputs: Any, *args: Any) -> None:
    """``gradients(outputs, sums, pairs, *args)`` returns the parts of the weight's gradient."""
    y = args[11]
    if not y.numel():
        fused(outputs, *args)
        return
    partials = gradients(outputs, _channel_parts(*args), _pairs(y, args[3]), *args)
    add_parts(DIRECT, partials, outputs[1])


def tensor_cores(outputs: Any, *args: Any) -> None:
    _on_tensor_cores(k06_tensor_cores.gradients, outputs, *args)


def warpgroups(outputs: Any, *args: Any) -> None:
    _on_tensor_cores(k06_tensor_cores.gradients_by_warpgroups, outputs, *args)


RUNGS = (
    make_rung(HERE, "k01_separate_passes", "a thread per channel, then a thread per pixel", separate_passes,
              dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k02_fused", "a window per thread, maxima recomputed, implicit GEMMs", fused, dtypes=DTYPES,
              limits=limits),
    make_rung(HERE, "k03_direct_tiles", "the convolution's gradient in shared memory, direct sums from registers",
              direct_tiles, dtypes=DTYPES, limits=direct_limits),
    make_rung(HERE, "k06_tensor_cores", "both gradients by mma.sync from one recomputed gradient of the convolution",
              tensor_cores, dtypes=DTYPES, limits=mma_sync_limits),
    make_rung(HERE, "k07_warpgroups", "Hopper: both gradients by wgmma, its shared operands prepared once", warpgroups,
              dtypes=DTYPES, limits=warpgroup_limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """Up to ``forward.MOST_CHANNELS`` channels k03, or k02 if k03 does not take the arguments; else PyTorch."""
    few = args[4].shape[1] <= forward.MOST_CHANNELS
    return first_taking(RUNGS, args, "k03_direct_tiles", "k02_fused") if few else None
