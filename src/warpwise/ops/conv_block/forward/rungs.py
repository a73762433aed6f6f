"""The ladder of conv_block, slowest idea first."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.device.limits import SM_SHARED, even_shared, is_hopper, requires_hopper
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops._c import function
from warpwise.ops._conv3x3 import each, flags, groups, output_tile
from warpwise.ops._conv3x3_mma import FEW_BATCH_PIXELS, PLANES, band, fills_tiles, mma_limits
from warpwise.ops._defaults import first_taking
from warpwise.ops.conv_block import _one_channel as one_channel
from warpwise.ops.conv_block.forward import k06_tensor_cores
from warpwise.ops.conv_block.spec import DTYPES, SPEC, Four, convolved_shape

HERE = Path(__file__).parent
THREADS, COLUMNS, STATISTICS_THREADS = 256, 128, 1024  # kThreads, kColumns, kStatisticsThreads
WARPS = 8  # of a block of k04
EACH = 4  # kEach of k05
BLOCKS_PER_SM = 2  # of normalise_and_pool of k05
FEW_PIXELS = 8192  # per SM, up to which a block of input_moments has 256 threads, and 512 above
MOST_ELEMENTS, MOST_FILTERS = 2**30, 65535
MOST_CHANNELS = 64  # of an input that the default takes
MOST_PADDING = 2.0  # more than 16 channels: products with padding over those without, up to which tensor cores are used
MOST_PADDED_PLANES = 4.0  # the same for k07 with up to 16 channels
SEPARATE = cuda.load(HERE / "k01_separate_passes.cu")
FUSED = cuda.load(HERE / "k03_fused.cu")
DIRECT = cuda.load(HERE / "k04_direct_tiles.cu")
MOMENTS = cuda.load(HERE / "k05_input_moments.cu")
IN_C = function(HERE / "k02_c.c", "conv_block", 8 * "p" + "lllllf")


def without_moments(launch: Callable[..., None]) -> Callable[..., None]:
    """``launch`` of a rung that does not read the moments, the last argument."""
    return lambda outputs, *args: launch(outputs, *args[:-1])


def _stored(outputs: Four, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
    """The output ``convolved``, or scratch memory of its shape where it is not present."""
    return input.new_empty(convolved_shape(input, weight)) if outputs[3] is None else outputs[3]


def limits(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    most = max(input.numel(), input.numel() // max(1, input.shape[1]) * weight.shape[0])
    if most > MOST_ELEMENTS or weight.shape[0] > MOST_FILTERS:
        return f"takes up to {MOST_FILTERS} filters and {MOST_ELEMENTS} elements, not {weight.shape[0]} and {most}"
    return None


def moment_limits(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return one_channel.limits(input) or limits(input, weight)


def convolution(input: torch.Tensor, weight: torch.Tensor, convolved: torch.Tensor) -> None:
    """Write the convolution of ``input`` with ``weight`` to ``convolved``."""
    if convolved.numel():
        kernel = SEPARATE["convolution"][cdiv(convolved.numel(), THREADS), THREADS]
        kernel(input, weight, cuda.out(convolved), *input.shape, weight.shape[0])


def separate_passes(outputs: Four, *args: Any) -> None:
    output, mean, var, _ = outputs
    input, weight, gamma, beta, eps = args
    convolved = _stored(outputs, *args)
    n, k, h, w = convolved.shape
    convolution(input, weight, convolved)
    SEPARATE["statistics"][cdiv(k, 32), 32](convolved, cuda.out(mean), cuda.out(var), n, k, h * w)
    if n:
        kernel = SEPARATE["normalised_maximum"][cdiv(output.numel(), THREADS), THREADS]
        kernel(convolved, mean, var, gamma, beta, cuda.out(output), n * k, k, h, w, eps)


def in_c(outputs: Four, *args: Any) -> None:
    input, weight, gamma, beta, eps = args
    IN_C(input, weight, gamma, beta, *outputs[:3], _stored(outputs, *args), *input.shape, weight.shape[0], eps)


def pool(outputs: Four, convolved: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float) -> None:
    """Normalisation by the statistics in ``outputs``, relu and pooling."""
    output, mean, var, _ = outputs
    n, k, h, w = convolved.shape
    windows = 2 if w % 4 == 0 and not convolved.data_ptr() % 16 and not output.data_ptr() % 8 else 1
    sized = FUSED[f"normalise_and_pool<{windows}, {flags(w % 2 == 0)}>"]
    kernel = sized[cdiv(output.numel(), windows * THREADS), THREADS]
    kernel(convolved, mean, var, gamma, beta, cuda.out(output), n * k, k, h, w, eps)


def _combine_and_pool(outputs: Four, convolved: torch.Tensor, partials: torch.Tensor, *rest: Any) -> None:
    """Statistics from ``partials`` (K, parts, 3), then ``pool``."""
    _, mean, var, _ = outputs
    n, k, h, w = convolved.shape
    combine = DIRECT["combined_statistics"][k, STATISTICS_THREADS]
    combine(partials, cuda.out(mean), cuda.out(var), partials.shape[1], n * h * w)
    pool(outputs, convolved, *rest)


def fused(outputs: Four, *args: Any) -> None:
    _, mean, var, _ = outputs
    input, weight, *rest = args
    convolved = _stored(outputs, *args)
    n, k, h, w = convolved.shape
    tiles, rows, each = cdiv(n * h * w, COLUMNS), *((16, 4) if k <= 16 else (32, 8))
    partials = input.new_empty((k, tiles, 2))
    if n:
        kernel = FUSED[f"convolution_with_statistics<{rows}, {each}>"][(tiles, cdiv(k, rows)), COLUMNS]
        kernel(input, weight, cuda.out(convolved), cuda.out(partials), *input.shape, k)
    kernel = FUSED["combined_statistics"][k, STATISTICS_THREADS]
    kernel(partials, cuda.out(mean), cuda.out(var), tiles, n * h * w)
    if n:
        pool(outputs, convolved, *rest)


def convolve_directly(input: torch.Tensor, weight: torch.Tensor, convolved: torch.Tensor) -> torch.Tensor:
    """``convolved`` = the convolution of N > 0 images; returns the partial statistics (K, parts, 3)."""
    n, k, h, w = convolved.shape
    four, filters = groups(k), each(k)
    tile = output_tile(k, h, w, filters)
    blocks = n * tile.bands * tile.sides
    parts = blocks * WARPS // four
    partials = input.new_empty((k, parts, 3))
    kernel = DIRECT[f"convolution_with_statistics<{four}, {filters}>"][
        blocks * cdiv(k, filters * four), THREADS, tile.shared
    ]
    sizes = (*input.shape[1:], k, tile.rows, tile.strips)
    kernel(input, weight, cuda.out(convolved), cuda.out(partials), parts, *sizes)
    return partials


def direct_tiles(outputs: Four, *args: Any) -> None:
    if not outputs[0].shape[0]:
        fused(outputs, *args)
        return
    input, weight, *rest = args
    convolved = _stored(outputs, *args)
    _combine_and_pool(outputs, convolved, convolve_directly(input, weight, convolved), *rest)


def patch_moments(input: torch.Tensor) -> torch.Tensor:
    """Mean and covariance, (10, 9) in float64, of the 3 x 3 patches of N > 0 images of one channel."""
    n, _, h, w = input.shape
    sms, vector = sm_count(input), one_channel.vector(input)
    threads = 256 if input.numel() <= FEW_PIXELS * sms else 512
    tiles = one_channel.tiles(n, h, w, cdiv(h, 2), w, sms, threads)
    parts = input.new_empty((tiles.blocks, one_channel.PART))
    if n <= sms and is_hopper(input):  # one block beside a block of another kernel that has half of an SM
        shared = max(tiles.shared(), SM_SHARED // 3)
    else:
        shared = even_shared(input, tiles.blocks, tiles.shared())
    kernel = MOMENTS[f"input_moments<{vector}, {threads}>"][tiles.blocks, threads, shared]
    moments = input.new_empty((10, 9), dtype=torch.float64)
    written = cuda.out(parts), cuda.out(moments), semaphores(input, 1)
    kernel(input, *written, 1 / (n * h * w), n, h, w, *tiles[:-1])
    return moments


def input_moments(outputs: Four, *args: Any) -> None:
    output, mean, var, _ = outputs
    input, weight, gamma, beta, eps, given = args
    n, k, (_, _, h, w) = len(input), len(weight), input.shape
    if not n:
        fused(outputs, *args[:-1])
        return
    moments = patch_moments(input) if given is None else given
    sms, vector = sm_count(input), one_channel.vector(input)
    groups = one_channel.groups(k, EACH)
    tall = cdiv(k, EACH * groups)
    most = max(1, BLOCKS_PER_SM * sms // tall)
    tiles = one_channel.tiles(n, h, w, h // 2, w // 2, most, one_channel.THREADS // groups)
    kernel = MOMENTS[f"normalise_and_pool<{vector}>"][(tiles.blocks, tall), one_channel.THREADS, tiles.shared(w // 2)]
    kernel(input, weight, gamma, beta, moments, cuda.out(output), cuda.out(mean), cuda.out(var), n, h, w, k,
           *tiles[:-1], groups.bit_length() - 1, eps)  # fmt: skip


def mma_sync_limits(*args: Any) -> str | None:
    return mma_limits(args[0]) or limits(*args)


def warpgroup_limits(*args: Any) -> str | None:
    return requires_hopper(args[0]) or mma_sync_limits(*args)


def tensor_cores(outputs: Four, *args: Any) -> None:
    input, weight, *rest = args
    convolved = _stored(outputs, *args)
    if not len(convolved):
        fused(outputs, *args)
        return
    partials = k06_tensor_cores.convolve(input, weight, convolved)
    _combine_and_pool(outputs, convolved, partials, *rest)


def warpgroups(outputs: Four, *args: Any) -> None:
    if not outputs[0].shape[0]:
        fused(outputs, *args)
        return
    input, weight, *rest = args
    convolved = _stored(outputs, *args)
    partials = k06_tensor_cores.convolve_by_warpgroups(input, weight, convolved)
    k06_tensor_cores.normalise_and_pool(outputs, convolved, partials, *rest)


def triton(outputs: Four, *args: Any) -> None:
    from warpwise.ops.conv_block.forward.k08_triton import launch

    launch(outputs, _stored(outputs, *args), *args)


RUNGS = (
    make_rung(HERE, "k01_separate_passes", "a kernel for each step, a thread for each result",
              without_moments(separate_passes), dtypes=DTYPES, limits=limits),
    Rung("k02_c", "the definition in C", "c",
         without_moments(in_c), HERE / "k02_c.c", dtypes=DTYPES, devices=("cpu",)),
    make_rung(HERE, "k03_fused", "statistics in the convolution's epilogue; normalise, relu and pool in one",
              without_moments(fused), dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k04_direct_tiles", "the convolution by direct sums from tiles in shared memory",
              without_moments(direct_tiles), dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k05_input_moments", "one input channel: statistics from the input's moments, nothing stored",
              input_moments, dtypes=DTYPES, limits=moment_limits),
    make_rung(HERE, "k06_tensor_cores", "the convolution by mma.sync, three products of TF32 for each of float32",
              without_moments(tensor_cores), dtypes=DTYPES, limits=mma_sync_limits),
    make_rung(HERE, "k07_warpgroups", "Hopper: the convolution by wgmma; the pooling combines the statistics",
              without_moments(warpgroups), dtypes=DTYPES, limits=warpgroup_limits),
    make_rung(HERE, "k08_triton", "Triton: tiles of tl.dot also give statistics; normalise, relu and pool in one",
              without_moments(triton), dtypes=DTYPES, limits=limits),
)  # fmt: skip


def _cores(channels: int, filters: int) -> bool:
    """True if the filters fill the tiles of tensor cores; with more than 16 channels tiles may have more padding."""
    return fills_tiles(channels, filters) if channels <= PLANES else fills_tiles(channels, filters, most=MOST_PADDING)


def _fills_warpgroups(channels: int, filters: int) -> bool:
    """True if k07 is at least as fast as k04 for 2 to 16 channels, even if most of a tile is padding."""
    return 1 < channels <= PLANES and fills_tiles(channels, filters, most=MOST_PADDED_PLANES)


@functools.lru_cache(maxsize=1024)
def is_idle(n: int, channels: int, h: int, w: int, filters: int, sms: int, hopper: bool = True) -> bool:
    """True if separate operations are predicted to compute the forward alone in less time than k07 or k04.

    The times are fitted on an H200. A block of k07 has 32 filters and an image, or a band of a large one, however small
    these are: k07 takes 7 µs, and 0.022 µs for each block. For such shapes separate operations take 8 µs, and 80 µs for
    a GFLOP.

    In k04 small images leave most threads idle. A wave of its blocks, two per SM, takes 2.5 µs for each chunk of 8 or
    16 channels, and for each 16 channels 2.5 µs and 0.02 µs for each pixel of a tile; the other launches take 8 µs. For
    such shapes separate operations take 12 µs, and 170 µs for a GFLOP.
    """
    gflop = 2e-9 * n * channels * h * w * filters * 9
    if hopper and _fills_warpgroups(channels, filters):
        return 7 + 0.022 * n * band(h, w).bands * cdiv(filters, 2 * PLANES) > 1.15 * (8 + 80 * gflop)
    if channels == 1 or _cores(channels, filters):
        return False
    planes, four = each(filters), groups(filters)
    tile = output_tile(filters, h, w, planes)
    waves = cdiv(n * tile.bands * tile.sides * cdiv(filters, planes * four), 2 * sms)
    pixels = min(tile.rows, h) * min(4 * tile.strips, w)
    block_us = 2.5 * cdiv(channels, 8 if four == 1 else 16) + channels / 16 * (2.5 + 0.02 * pixels)
    return 8 + waves * block_us > 1.3 * (12 + 170 * gflop)


def default(*args: Any) -> str | None:
    """k05 for one input channel (or k03 if k05 does not take the images), PyTorch for more than MOST_CHANNELS.

    For 2 to 16 channels k07 on Hopper, unless more than three quarters of its products are padding; else k06 for many
    pixels and filters that fill the tiles of tensor cores; for more channels k07, which takes 0.4 of k04's time there,
    with up to half padding; otherwise k04.
    """
    input, weight = args[:2]
    n, channels, h, w = input.shape
    if channels == 1:
        names: tuple[str, ...] = ("k05_input_moments", "k03_fused")
    elif _fills_warpgroups(channels, weight.shape[0]):
        cores = n * h * w > FEW_BATCH_PIXELS and _cores(channels, weight.shape[0])
        many = ("k06_tensor_cores",) if cores else ()
        names = ("k07_warpgroups", *many, "k04_direct_tiles")
    elif _cores(channels, weight.shape[0]):
        names = ("k07_warpgroups", "k04_direct_tiles")
    else:
        names = ("k04_direct_tiles",)
    return first_taking(SPEC, RUNGS, args, *names) if channels <= MOST_CHANNELS else None
