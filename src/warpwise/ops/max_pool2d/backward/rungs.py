"""The ladder of max_pool2d_backward, slowest idea first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import Rung, cdiv, make_rung
from warpwise.ops import _pool_vectors, _windows
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops._windows import Pair, backward_format
from warpwise.ops.max_pool2d.spec import BACKWARD

HERE = Path(__file__).parent
THREADS = 256
FLOAT32 = (torch.float32,)
THREAD_PER_PIXEL = cuda.load(HERE / "k01_thread_per_pixel.cu")
HALVED = cuda.load(HERE / "k02_halved.cu")
CHANNEL_VECTORS = cuda.load(HERE / "k03_channel_vectors.cu")
IN_C = function(HERE / "k05_c.c", "max_pool2d_backward", "ppplll")


def limits(grad_output: torch.Tensor, indices: torch.Tensor, shape: Sequence[int], *rest: Any) -> str | None:
    return _windows.index_limits(math.prod(shape))


def halved_limits(grad_output: torch.Tensor, indices: torch.Tensor, shape: Sequence[int], *settings: Any) -> str | None:
    return _windows.halved_limits(shape[3], *settings[:3]) or limits(grad_output, indices, shape, *settings)


def thread_per_pixel(
    grad_input: torch.Tensor,
    grad_output: torch.Tensor,
    indices: torch.Tensor,
    shape_input: Sequence[int],
    kernel_size: Pair,
    stride: Pair,
    padding: Pair,
    nhwc_input: bool | None,
) -> None:
    kernel = THREAD_PER_PIXEL["max_pool2d_backward"][cdiv(grad_input.numel(), THREADS), THREADS]
    sizes = (grad_input.numel(), *grad_input.shape[2:], *grad_output.shape[2:])
    kernel(grad_output, indices, cuda.out(grad_input), *sizes, *kernel_size, *stride, *padding)


def halved(
    grad_input: torch.Tensor,
    grad_output: torch.Tensor,
    indices: torch.Tensor,
    shape_input: Sequence[int],
    *settings: Any,
) -> None:
    n, c, h, w = grad_input.shape
    windows = _pool_vectors.halved_windows(w, grad_output, indices, grad_input)
    total = n * c * cdiv(h, 2) * (w // 2) // windows
    kernel = HALVED[f"max_pool2d_backward_halved<{cuda.ctype(grad_input.dtype)}, {windows}>"]
    kernel[cdiv(total, THREADS), THREADS](grad_output, indices, cuda.out(grad_input), total, h, w)


def vector_limits(grad_output: torch.Tensor, indices: torch.Tensor, shape: Sequence[int], *rest: Any) -> str | None:
    return _pool_vectors.limits(backward_format(grad_output, rest[-1]), grad_output, indices, shape=shape)


def channel_vectors(
    grad_input: torch.Tensor, grad_output: torch.Tensor, indices: torch.Tensor, shape: Sequence[int], *settings: Any
) -> None:
    *pairs, nhwc_input = settings
    format, given = backward_format(grad_output, nhwc_input), [grad_output, indices]
    sizes = (shape, grad_output.shape, *pairs)
    _pool_vectors.launch(CHANNEL_VECTORS, "max_pool2d_backward_vectors", format, given, [grad_input], sizes)


def triton(
    grad_input: torch.Tensor,
    grad_output: torch.Tensor,
    indices: torch.Tensor,
    shape_input: Sequence[int],
    kernel_size: Pair,
    stride: Pair,
    padding: Pair,
    nhwc_input: bool | None,
) -> None:
    from warpwise.ops.max_pool2d.backward.k04_triton import max_pool2d_backward

    (kh, kw), (sh, sw), (ph, pw) = kernel_size, stride, padding
    max_pool2d_backward[(cdiv(grad_input.numel(), THREADS),)](
        *(grad_output, indices, grad_input, grad_input.numel(), *grad_input.shape[2:], *grad_output.shape[2:]),
        KH=kh, KW=kw, STRIDE_H=sh, STRIDE_W=sw, PAD_H=ph, PAD_W=pw, BLOCK=THREADS, num_warps=4,
    )  # fmt: skip


def triton_limits(
    grad_output: torch.Tensor, indices: torch.Tensor, shape: Sequence[int], kernel: Pair, *rest: Any
) -> str | None:
    return _windows.unrolled_limits(kernel) or limits(grad_output, indices, shape, kernel, *rest)


def in_c(grad_input: torch.Tensor, grad_output: torch.Tensor, indices: torch.Tensor, *rest: Any) -> None:
    n, c, *image = grad_input.shape
    IN_C(grad_output, indices, grad_input, n * c, math.prod(image), math.prod(grad_output.shape[2:]))


RUNGS = (
    make_rung(HERE, "k01_thread_per_pixel", "one thread per pixel of the input", thread_per_pixel, dtypes=FLOAT32,
              limits=limits),
    make_rung(HERE, "k02_halved", "2 x 2 windows side by side, up to 16 bytes an access", halved,
              dtypes=_pool_vectors.DTYPES, limits=halved_limits),
    make_rung(HERE, "k03_channel_vectors", "NHWC, 16-bit types: 16 bytes of channels, unrolled windows",
              channel_vectors, dtypes=_pool_vectors.DTYPES, limits=vector_limits, strided=True),
    make_rung(HERE, "k04_triton", "a block of pixels per program in Triton, unrolled", triton,
              dtypes=_pool_vectors.DTYPES, limits=triton_limits),
    Rung("k05_c", "the definition in C", "c", in_c, HERE / "k05_c.c", dtypes=FLOAT32, devices=("cpu",)),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k03 in NHWC order; else k02 for 2 x 2 windows side by side, k03 for others; k01 where there are gaps."""
    names = () if backward_format(args[0], args[-1]) == torch.channels_last else ("k02_halved",)
    return first_taking(BACKWARD, RUNGS, args, *names, "k03_channel_vectors", "k01_thread_per_pixel")
