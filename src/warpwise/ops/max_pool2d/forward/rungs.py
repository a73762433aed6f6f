"""The ladder of max_pool2d, slowest idea first."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.arguments.layout import memory_format
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops import _pool_vectors
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops._windows import Pair, limits, pooled_shape
from warpwise.ops.max_pool2d.spec import SPEC, Two

HERE = Path(__file__).parent
THREADS = 256
FLOAT32 = (torch.float32,)
THREAD_PER_WINDOW = cuda.load(HERE / "k01_thread_per_window.cu")
HALVED = cuda.load(HERE / "k03_halved.cu")
CHANNEL_VECTORS = cuda.load(HERE / "k04_channel_vectors.cu")
SHARED_ROWS = cuda.load(HERE / "k06_shared_rows.cu")
WINDOWS = 4  # kWindows of k06
MANY_WINDOWS = 1024  # windows per SM from which on k06 is faster than k04
IN_C = function(HERE / "k02_c.c", "max_pool2d", "pppl" + 11 * "l")


def thread_per_window(
    outputs: Two, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, relu: bool
) -> None:
    output, indices = outputs
    kernel = THREAD_PER_WINDOW["max_pool2d"][cdiv(output.numel(), THREADS), THREADS]
    sizes = (output.numel(), *input.shape[2:], *output.shape[2:])
    kernel(input, cuda.out(output), cuda.out(indices), *sizes, *kernel_size, *stride, *padding, relu)


def in_c(outputs: Two, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, relu: bool) -> None:
    output, indices = outputs
    planes = input.shape[0] * input.shape[1]
    IN_C(input, output, indices, planes, *input.shape[2:], *output.shape[2:], *kernel_size, *stride, *padding, relu)


def halved(outputs: Two, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, relu: bool) -> None:
    output, indices = outputs
    windows = _pool_vectors.halved_windows(input.shape[3], input, *outputs)
    total = output.numel() // windows
    kernel = HALVED[f"max_pool2d_halved<{cuda.ctype(input.dtype)}, {windows}>"][cdiv(total, THREADS), THREADS]
    kernel(input, cuda.out(output), cuda.out(indices), total, *input.shape[2:], *output.shape[2:], relu)


def channel_vectors(outputs: Two, input: torch.Tensor, *settings: Any) -> None:
    *windows, relu = settings
    sizes = (input.shape, outputs[0].shape, *windows)
    _pool_vectors.launch(CHANNEL_VECTORS, "max_pool2d_vectors", memory_format(input), [input], outputs, sizes, relu)


def shared_rows(outputs: Two, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, relu: bool) -> None:
    output, indices = outputs
    planes, groups = output.shape[0] * output.shape[1], cdiv(output.shape[2], WINDOWS)
    total = planes * groups * output.shape[3]
    kernel = SHARED_ROWS[f"max_pool2d_rows<{cuda.ctype(input.dtype)}, {kernel_size[0]}, {stride[0]}>"]
    sizes = (total, groups, *input.shape[2:], *output.shape[2:])
    kernel[cdiv(total, THREADS), THREADS](input, cuda.out(output), cuda.out(indices), *sizes, *padding, relu)


def shared_rows_limits(input: torch.Tensor, kernel_size: Pair, stride: Pair, *rest: Any) -> str | None:
    constant = _pool_vectors.constants(kernel_size, stride) != "0, 0"
    if not (constant and stride[0] < kernel_size[0]):
        return f"takes overlapping windows of 2, 3 or 5 pixels a side, not {tuple(kernel_size)} at {tuple(stride)}"
    return limits(input)


def triton(outputs: Two, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, relu: bool) -> None:
    from warpwise.ops.max_pool2d.forward.k05_triton import max_pool2d

    result, _ = outputs
    (kh, kw), (sh, sw), (ph, pw) = kernel_size, stride, padding
    max_pool2d[(cdiv(result.numel(), THREADS),)](
        *(input, *outputs, result.numel(), *input.shape[2:], *result.shape[2:]),
        KH=kh, KW=kw, STRIDE_H=sh, STRIDE_W=sw, PAD_H=ph, PAD_W=pw, RELU=relu, BLOCK=THREADS, num_warps=4,
    )  # fmt: skip


RUNGS = (
    make_rung(HERE, "k01_thread_per_window", "one thread per window", thread_per_window, dtypes=FLOAT32, limits=limits),
    Rung("k02_c", "the definition in C", "c", in_c, HERE / "k02_c.c", dtypes=FLOAT32, devices=("cpu",)),
    make_rung(HERE, "k03_halved", "2 x 2 windows side by side, up to 16 bytes an access", halved,
              dtypes=_pool_vectors.DTYPES, limits=_pool_vectors.halved_limits),
    make_rung(HERE, "k04_channel_vectors", "NHWC, 16-bit types: 16 bytes of channels, unrolled windows",
              channel_vectors, dtypes=_pool_vectors.DTYPES, limits=_pool_vectors.vector_limits, strided=True),
    make_rung(HERE, "k05_triton", "a block of windows per program in Triton, unrolled", triton,
              dtypes=_pool_vectors.DTYPES, limits=_pool_vectors.unrolled_limits),
    make_rung(HERE, "k06_shared_rows", "overlapping windows: four of a thread share the maxima of rows", shared_rows,
              dtypes=_pool_vectors.DTYPES, limits=shared_rows_limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k04 in NHWC order without gaps; in NCHW order k03 for 2 x 2 windows side by side, k06 for many that overlap, k01
    for gaps. PyTorch computes images in NHWC order with gaps.
    """
    input = args[0]
    if memory_format(input) == torch.channels_last:
        return first_taking(SPEC, RUNGS, args, "k04_channel_vectors")
    many = math.prod(pooled_shape(input.shape, *args[1:4])) >= MANY_WINDOWS * sm_count(input)
    shared = ("k06_shared_rows",) if many else ()
    return first_taking(SPEC, RUNGS, args, "k03_halved", *shared, "k04_channel_vectors", "k01_thread_per_window")
