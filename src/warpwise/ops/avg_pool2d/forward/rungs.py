"""The ladder of avg_pool2d, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.arguments.layout import memory_format
from warpwise.operation import Rung, cdiv, make_rung
from warpwise.ops import _pool_vectors
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops._windows import Pair, limits
from warpwise.ops.avg_pool2d.spec import SPEC

HERE = Path(__file__).parent
THREADS = 256
FLOAT32 = (torch.float32,)
THREAD_PER_WINDOW = cuda.load(HERE / "k01_thread_per_window.cu")
HALVED = cuda.load(HERE / "k03_halved.cu")
CHANNEL_VECTORS = cuda.load(HERE / "k04_channel_vectors.cu")
IN_C = function(HERE / "k02_c.c", "avg_pool2d", "pp" + 12 * "l")


def thread_per_window(
    output: torch.Tensor, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, counts: bool
) -> None:
    kernel = THREAD_PER_WINDOW["avg_pool2d"][cdiv(output.numel(), THREADS), THREADS]
    sizes = (output.numel(), *input.shape[2:], *output.shape[2:])
    kernel(input, cuda.out(output), *sizes, *kernel_size, *stride, *padding, counts)


def in_c(
    output: torch.Tensor, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, counts: bool
) -> None:
    sizes = (input.shape[0] * input.shape[1], *input.shape[2:], *output.shape[2:])
    IN_C(input, output, *sizes, *kernel_size, *stride, *padding, counts)


def halved(
    output: torch.Tensor, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, counts: bool
) -> None:
    windows = _pool_vectors.halved_windows(input.shape[3], input, output)
    total = output.numel() // windows
    kernel = HALVED[f"avg_pool2d_halved<{cuda.ctype(input.dtype)}, {windows}>"][cdiv(total, THREADS), THREADS]
    kernel(input, cuda.out(output), total, *input.shape[2:], *output.shape[2:])


def channel_vectors(output: torch.Tensor, input: torch.Tensor, *settings: Any) -> None:
    *pairs, counts = settings
    sizes = (input.shape, output.shape, *pairs)
    _pool_vectors.launch(CHANNEL_VECTORS, "avg_pool2d_vectors", memory_format(input), [input], [output], sizes, counts)


def triton(
    output: torch.Tensor, input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, counts: bool
) -> None:
    from warpwise.ops.avg_pool2d.forward.k05_triton import avg_pool2d

    (kh, kw), (sh, sw), (ph, pw) = kernel_size, stride, padding
    avg_pool2d[(cdiv(output.numel(), THREADS),)](
        *(input, output, output.numel(), *input.shape[2:], *output.shape[2:]),
        KH=kh, KW=kw, STRIDE_H=sh, STRIDE_W=sw, PAD_H=ph, PAD_W=pw, PADDING_COUNTS=counts, BLOCK=THREADS, num_warps=4,
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
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k04 in NHWC order without gaps; in NCHW order k03 for 2 x 2 windows side by side, k04 for others, k01 for gaps.

    PyTorch computes images in NHWC order with gaps.
    """
    if memory_format(args[0]) == torch.channels_last:
        return first_taking(SPEC, RUNGS, args, "k04_channel_vectors")
    return first_taking(SPEC, RUNGS, args, "k03_halved", "k04_channel_vectors", "k01_thread_per_window")
