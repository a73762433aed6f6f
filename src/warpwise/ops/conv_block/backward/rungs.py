"""The ladder of conv_block_backward, slowest idea first."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.device.limits import requires_hopper
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops._c import function
from warpwise.ops._conv3x3 import add_parts, add_splits, flags, inputs, row_limits, weights
from warpwise.ops._conv3x3_mma import FEW_BATCH_PIXELS, PLANES, band, fills_tiles, mma_limits
from warpwise.ops._defaults import first_taking
from warpwise.ops.conv2d.op import CONV2D_BACKWARD
from warpwise.ops.conv_block import _one_channel as one_channel
from warpwise.ops.conv_block.backward import k06_tensor_cores, k07_stored_gradient, k09_bf16x3
from warpwise.ops.conv_block.forward import rungs as forward
from warpwise.ops.conv_block.spec import BACKWARD, DTYPES, convolved_shape

Average = Callable[[torch.Tensor], torch.Tensor]  # the average over the processes that divide a batch
HERE = Path(__file__).parent
THREADS = 256  # kThreads
BLOCKS_PER_SM = 4
FEWEST_WINDOWS = 1024  # of a block
MOST_PARTS = 32  # blocks of a channel in k03
EACH, FILTER_SUMS = 2, 10  # kEach and kFilterSums of k05
SEPARATE = cuda.load(HERE / "k01_separate_passes.cu")
FUSED = cuda.load(HERE / "k02_fused.cu")
DIRECT = cuda.load(HERE / "k03_direct_tiles.cu")
MOMENTS = cuda.load(HERE / "k05_input_moments.cu")
IN_C = function(HERE / "k10_c.c", "grad_convolved", 12 * "p" + "llllf")
CONVOLUTION = ([1, 1], [1, 1], [1, 1], 1)  # stride, padding, dilation and groups


def limits(*args: Any) -> str | None:
    return forward.limits(*args[4:6])


def direct_limits(*args: Any) -> str | None:
    return row_limits(args[4]) or limits(*args)


def mma_sync_limits(*args: Any) -> str | None:
    return mma_limits(args[4]) or limits(*args)


def stored_limits(*args: Any) -> str | None:
    return requires_hopper(args[4]) or mma_sync_limits(*args)


def bf16_limits(*args: Any) -> str | None:
    return k09_bf16x3.limits(*args) or limits(*args)


def moment_limits(*args: Any) -> str | None:
    if args[3] is not None or args[12]:
        return "takes no gradient of the convolution, and computes none of the input"
    return one_channel.limits(args[4]) or limits(*args)


def _stored(*args: Any) -> torch.Tensor:
    """The argument ``convolved``, or the convolution computed again where the forward does not save it."""
    input, weight, convolved = args[4], args[5], args[11]
    if convolved is None:
        convolved = input.new_empty(convolved_shape(input, weight))
        forward.convolution(input, weight, convolved)
    return convolved


def _convolution(rung: str, outputs: Any, d: torch.Tensor, *args: Any) -> None:
    """dx, if it is needed, and dw from the gradient ``d`` of the convolution."""
    dx, dw = outputs[:2]
    input, weight = args[4:6]
    settings = (*CONVOLUTION, dx is not None, True, False)
    CONV2D_BACKWARD.launch(CONV2D_BACKWARD.rung(rung), (dx, dw, None), d, input, weight, None, *settings)


def separate_passes(outputs: Any, *args: Any) -> None:
    dy, dmean, dvar, dconv, _, _, gamma, beta, eps, mean, var, *_ = args
    dgamma, dbeta = outputs[2:]
    y = _stored(*args)
    sizes = (*y.shape, eps)
    channels = SEPARATE["channel_gradients"][cdiv(y.shape[1], 32), 32]
    channels(y, dy, mean, var, gamma, beta, cuda.out(dgamma), cuda.out(dbeta), *sizes)
    d = torch.empty_like(y)
    if y.numel():
        kernel = SEPARATE["grad_convolved"][cdiv(y.numel(), THREADS), THREADS]
        kernel(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, dgamma, dbeta, cuda.out(d), *sizes)
    _convolution("k01_thread_per_element", outputs, d, *args)


def _grad_convolved(outputs: Any, *args: Any, average: Average | None = None) -> torch.Tensor:
    """The gradient of the convolution; writes dgamma and dbeta, with ``average`` the averages of all processes."""
    dy, dmean, dvar, dconv, _, _, gamma, beta, eps, mean, var, *_ = args
    dgamma, dbeta = outputs[2:]
    y = _stored(*args)
    n, k, h, w = y.shape
    sizes = (*y.shape, eps)
    windows = n * (h // 2) * (w // 2)
    parts = max(1, min(cdiv(BLOCKS_PER_SM * sm_count(y), k), cdiv(windows, FEWEST_WINDOWS)))
    partials, counters = y.new_empty((k, parts, 2)), semaphores(y, k)
    kernel = FUSED["channel_gradients"][(parts, k), THREADS]
    kernel(y, dy, mean, var, gamma, beta, cuda.out(dgamma), cuda.out(dbeta), partials, counters, *sizes)
    if average is not None:
        for output, averaged in zip((dgamma, dbeta), average(torch.stack([dgamma, dbeta])), strict=True):
            output.copy_(averaged)
    d = torch.empty_like(y)
    if y.numel():
        kernel = FUSED["grad_convolved"][cdiv(n * k * cdiv(h, 2) * cdiv(w, 2), THREADS), THREADS]
        kernel(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, dgamma, dbeta, cuda.out(d), *sizes)
    return d


def fused(outputs: Any, *args: Any, average: Average | None = None) -> None:
    _convolution("k02_implicit_gemm", outputs, _grad_convolved(outputs, *args, average=average), *args)


def _pairs(y: torch.Tensor, dconv: torch.Tensor | None) -> bool:
    """True if each row of a window is one 8-byte load."""
    return y.shape[3] % 2 == 0 and all(tensor.data_ptr() % 8 == 0 for tensor in (y, dconv) if tensor is not None)


def _channel_parts(y: torch.Tensor, *args: Any, average: Average | None) -> torch.Tensor:
    """Partial sums, (K, parts, 2), of the gradient of the normalised values, and of that gradient times the value.

    With ``average`` the averages of the sums of all processes, (K, 1, 2).
    """
    dy, _, _, dconv, _, _, gamma, beta, eps, mean, var, *_, output = args
    n, k, h, w = y.shape
    parts = max(1, min(cdiv(BLOCKS_PER_SM * sm_count(y), k), cdiv(n * (h // 2) * (w // 2), FEWEST_WINDOWS), MOST_PARTS))
    sums = y.new_empty((k, parts, 2))
    kernel = DIRECT[f"channel_parts<{flags(_pairs(y, dconv))}>"][(parts, k), THREADS]
    kernel(y, output, dy, mean, var, gamma, beta, cuda.out(sums), *y.shape, eps)
    return sums if average is None else average(sums.sum(1, keepdim=True))


def direct_tiles(outputs: Any, *args: Any, average: Average | None = None, sums: torch.Tensor | None = None) -> None:
    """``sums`` are those of ``_channel_parts`` if they are known."""
    dy, dmean, dvar, dconv, x, weight, gamma, beta, eps, mean, var, *_ = args
    dx, dw, dgamma, dbeta = outputs
    if not x.numel():
        fused(outputs, *args)
        return
    y = _stored(*args)
    n, k, h, w = y.shape
    c = x.shape[1]
    if sums is None:
        sums = _channel_parts(y, *args, average=average)
    plan, given = weights(n, c, h, w, k, sm_count(y)), inputs(n, c, h, w, k, sm_count(y))
    tile, blocks = given.tile, given.blocks if dx is not None else 0
    partials = y.new_empty((plan.parts, dw.numel()))
    split = x.new_empty((given.splits, *x.shape)) if dx is not None and given.splits > 1 else None
    shared = max(plan.tile.shared, tile.shared if blocks else 0)
    switches = flags(dx is not None, _pairs(y, dconv), dconv is not None)
    gradients = DIRECT[f"gradients<{plan.channels}, {plan.filters}, {given.each}, {switches}>"]
    to = dx if split is None else split
    gradients[plan.blocks + blocks, THREADS, shared](
        *(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, sums.shape[1], x, weight),
        *(None if to is None else cuda.out(to), cuda.out(dgamma), cuda.out(dbeta), cuda.out(partials)),
        *(n, c, h, w, k, eps, plan.blocks, plan.share, plan.tile.rows, plan.tile.strips, tile.rows, tile.strips),
        *(given.splits, given.share),
    )
    if dx is not None and split is not None:
        add_splits(DIRECT, split, dx)
    add_parts(DIRECT, partials, dw)


def input_moments(outputs: Any, *args: Any) -> None:
    dy, dmean, dvar, _, x, weight, gamma, beta, eps, mean, var, *_, given = args
    _, dw, dgamma, dbeta = outputs
    n, k, (_, _, h, w) = len(x), len(weight), x.shape
    if not n:
        fused(outputs, *args[:-1])
        return
    inverse = 1 / (n * h * w)
    sms, groups = sm_count(x), one_channel.groups(k, EACH)
    tall, splits = cdiv(k, EACH * groups), one_channel.THREADS // 32 // groups
    pixel_blocks = max(1, sms // tall)
    pixels = one_channel.tiles(n, h, w, cdiv(h, 2), w, pixel_blocks, one_channel.THREADS)
    own = pixels.blocks if given is None else 0  # blocks that compute moments
    windows = one_channel.tiles(n, h, w, h // 2, w // 2, max(1, (2 * sms - own) // tall), 32 * splits)
    blocks = windows.blocks if dy is not None else 0
    sums, moments = x.new_empty((k, blocks * splits, FILTER_SUMS)), x.new_empty((own, one_channel.PART))
    shared = max(windows.shared(w // 2), pixels.shared())
    if blocks + own:
        name = f"window_sums<{one_channel.vector(x)}, {flags(given is not None)}>"
        kernel = MOMENTS[name][(blocks + own, tall), one_channel.THREADS, shared]
        kernel(x, weight, dy, mean, var, gamma, beta, given, cuda.out(sums), cuda.out(moments), n, h, w, k,
               windows.pitch, windows.rows, windows.bands, windows.each, windows.share, blocks, pixels.rows,
               pixels.bands, pixels.each, pixels.share, groups.bit_length() - 1, eps)  # fmt: skip
    kernel = MOMENTS["filter_gradients"][k, 2 * one_channel.THREADS]
    kernel(sums, given, moments, weight, var, gamma, dmean, dvar, cuda.out(dw), cuda.out(dgamma), cuda.out(dbeta),
           blocks * splits, own, inverse, eps)  # fmt: skip


def tensor_cores(outputs: Any, *args: Any, average: Average | None = None, sums: torch.Tensor | None = None) -> None:
    """``sums`` are those of ``_channel_parts`` if they are known."""
    if not args[4].numel():
        fused(outputs, *args)
        return
    y = _stored(*args)
    if sums is None:
        sums = _channel_parts(y, *args, average=average)
    partials = k06_tensor_cores.gradients(outputs, sums, _pairs(y, args[3]), y, *args)
    add_parts(DIRECT, partials, outputs[1])


def bf16x3(outputs: Any, *args: Any, average: Average | None = None) -> None:
    if not args[4].numel():
        fused(outputs, *args)
        return
    y = _stored(*args)
    partials = k09_bf16x3.gradients(outputs, _channel_parts(y, *args, average=average), y, *args)
    add_parts(DIRECT, partials, outputs[1])


def stored_gradient(outputs: Any, *args: Any, average: Average | None = None) -> None:
    input, weight = args[4:6]
    if not input.numel():
        fused(outputs, *args)
        return
    y = _stored(*args)
    sums = _channel_parts(y, *args, average=average)
    d = k07_stored_gradient.grad_convolved(outputs, sums, _pairs(y, args[3]), y, *args)
    if outputs[0] is not None:
        k07_stored_gradient.grad_input(d, weight, outputs[0])
    add_parts(DIRECT, k07_stored_gradient.grad_weight(input, d, weight.numel()), outputs[1])


def triton(outputs: Any, *args: Any) -> None:
    from warpwise.ops.conv_block.backward.k08_triton import launch
    from warpwise.ops.conv_block.forward.k08_triton import convolution

    input, weight, gamma, beta, eps, mean, var, y = args[4:12]
    if not input.numel() or not weight.numel():
        for output in outputs:
            if output is not None:
                output.zero_()
        return
    if y is None:
        y = input.new_empty(convolved_shape(input, weight))
        convolution(input, weight, y)
    d = torch.empty_like(y)
    launch(y, (*outputs[2:], d), args[:4], (mean, var, gamma, beta), eps)
    _convolution("k04_triton", outputs, d, *args)


def in_c(outputs: Any, *args: Any) -> None:
    dy, dmean, dvar, dconv, input, weight, gamma, beta, eps, mean, var, y, *_ = args
    if y is None:
        y = input.new_empty(convolved_shape(input, weight))
        n, k, h, w = y.shape
        unused = y.new_empty((n, k, h // 2, w // 2)), y.new_empty(k), y.new_empty(k)
        forward.in_c((*unused, y), input, weight, gamma, beta, eps)
    d = torch.empty_like(y)
    IN_C(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, *outputs[2:], d, *y.shape, eps)
    _convolution("k05_c", outputs, d, *args)


RUNGS = (
    make_rung(HERE, "k01_separate_passes", "a thread per channel, then a thread per pixel",
              forward.without_moments(separate_passes), dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k02_fused", "a window per thread, maxima recomputed, implicit GEMMs",
              forward.without_moments(fused), dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k03_direct_tiles", "the convolution's gradient in shared memory, direct sums from registers",
              forward.without_moments(direct_tiles), dtypes=DTYPES, limits=direct_limits),
    make_rung(HERE, "k05_input_moments", "one input channel: sums over windows and the input's moments, no convolution",
              input_moments, dtypes=DTYPES, limits=moment_limits),
    make_rung(HERE, "k06_tensor_cores", "both gradients by mma.sync from one recomputed gradient of the convolution",
              forward.without_moments(tensor_cores), dtypes=DTYPES, limits=mma_sync_limits),
    make_rung(HERE, "k07_stored_gradient", "Hopper, many channels: the convolution's gradient is stored; wgmma for dx",
              forward.without_moments(stored_gradient), dtypes=DTYPES, limits=stored_limits),
    make_rung(HERE, "k08_triton", "Triton: two launches for the gradient of the convolution, then implicit GEMMs",
              forward.without_moments(triton), dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k09_bf16x3", "k06 with numbers split into three bfloat16 when they are stored, and ldmatrix",
              forward.without_moments(bf16x3), dtypes=DTYPES, limits=bf16_limits),
    Rung("k10_c", "the definition in C", "c", forward.without_moments(in_c), HERE / "k10_c.c", dtypes=DTYPES,
         devices=("cpu",)),
)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def is_serial(n: int, channels: int, h: int, w: int, filters: int, sms: int) -> bool:
    """True if the block's backward by separate operations, with the gradient of the input, is predicted to be faster.

    With few images each block of k06 takes the chunks of 32 filters of its band one after another, 0.09 µs for a pixel
    and chunk. Separate operations take 25 µs and 110 µs for a GFLOP of a gradient. Fitted to times of an H200.
    """
    bands, chunks = band(h, w), cdiv(filters, k06_tensor_cores.FILTERS)
    cores = channels > PLANES and fills_tiles(channels, filters, most=forward.MOST_PADDING)  # else k03
    if not cores or chunks == 1 or _takes_stored(n, channels, bands.bands, sms):
        return False
    gflop = 2e-9 * n * channels * h * w * filters * 9
    return 15 + 0.09 * chunks * bands.rows * w > 25 + 110 * gflop


def _takes_stored(n: int, channels: int, bands: int, sms: int) -> bool:
    """True for more bands of images than SMs, for which k07 is faster than k06."""
    return n * bands * cdiv(channels, PLANES) > sms


def default(*args: Any) -> str | None:
    """PyTorch for more than ``forward.MOST_CHANNELS`` channels, else the first of these that takes the arguments.

    k05; if up to 16 channels and 32 filters fill the tiles of tensor cores, k06 for many pixels or an image for most
    SMs, on Hopper k09 for more images than SMs; with more channels or filters k06 for few images, k07 for more; k03
    and k02.
    """
    (n, channels, h, w), filters = args[4].shape, args[5].shape[0]
    names = ["k05_input_moments", "k03_direct_tiles", "k02_fused"]
    sms, bands = sm_count(args[4]), band(h, w).bands
    if channels <= PLANES and filters <= k06_tensor_cores.FILTERS:
        images = n * h * w > FEW_BATCH_PIXELS or 4 * n * bands >= 3 * sms
        if images and fills_tiles(channels, filters):
            names.insert(1, "k06_tensor_cores")
            if n > sms and requires_hopper(args[4]) is None:
                names.insert(1, "k09_bf16x3")
    elif channels > PLANES and fills_tiles(channels, filters, most=forward.MOST_PADDING):
        stored = _takes_stored(n, channels, bands, sms)
        names.insert(1, "k07_stored_gradient" if stored else "k06_tensor_cores")
    return first_taking(BACKWARD, RUNGS, args, *names) if channels <= forward.MOST_CHANNELS else None
