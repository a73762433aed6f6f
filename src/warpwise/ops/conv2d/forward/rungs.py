"""The ladder of conv2d, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.arguments.layout import memory_format
from warpwise.operation import Rung, cdiv, lazy_launch, make_rung
from warpwise.ops._c import function
from warpwise.ops._conv3x3 import each, flags, groups, output_tile
from warpwise.ops._defaults import first_taking
from warpwise.ops._windows import has_order, in_order
from warpwise.ops.conv2d._launch import MOST_GRID, direct_limits, geometry, limits, side, sums, tile
from warpwise.ops.conv2d.spec import DTYPES, SPEC, Optional, output_shape

HERE = Path(__file__).parent
THREADS = 256  # of a block of k01
COLUMNS = 128  # pixels of a tile of k04 and k07
# The default of NCHW images: limits of the products per output, and of the groups.
SHORT_SUM = 54  # most products per output for k04 and k08
SHORT_TF32 = 27  # the same if TF32 is allowed: cuDNN is then faster
FEW_FILTERS = 8  # groups with fewer filters take k08, in place of k04
FEW_CHANNELS = 5  # most channels of a group for k08
LITTLE_WORK = 14e6  # for more than FEW_CHANNELS: the loads of k08 up to which cuDNN is faster than k04
DIRECT_CHANNELS, DIRECT_FILTERS = 16, 32  # most for k05
DIRECT_PIXELS = 128 * 14 * 14  # fewest pixels of a batch for k05
# The default of NHWC images.
SHORT_NHWC = 28  # most products per output for k07
FEW_TILES = 96  # fewest blocks of k07, if the filters are not a multiple of 4
MANY_TILES = 256  # fewest blocks of k07 for sums longer than SHORT_NHWC, up to SHORT_SUM
CHANNELS = (1, 3)  # compile-time constants of k07
PIXELS = 4  # kPixels of k08
SIDE, MOST_WINDOW = 16, 7  # kTile and kMostWindow of k03
FILTERS = 16  # of a block of k03
THREAD_PER_OUTPUT = cuda.load(HERE / "k01_thread_per_output.cu")
SHARED_TILE = cuda.load(HERE / "k03_shared_tile.cu")
IMPLICIT_GEMM = cuda.load(HERE / "k04_implicit_gemm.cu")
DIRECT = cuda.load(HERE / "k05_direct_tiles.cu")
NHWC = cuda.load(HERE / "k07_nhwc.cu")
FOUR_PIXELS = cuda.load(HERE / "k08_four_pixels.cu")
IN_C = function(HERE / "k02_c.c", "conv2d", "pppp" + 16 * "l")


def tile_limits(input: torch.Tensor, weight: torch.Tensor, bias: Optional, *settings: Any) -> str | None:
    stride, _, dilation, groups, *_ = settings
    if (*stride, *dilation, groups) != (1, 1, 1, 1, 1):
        return "takes stride 1, dilation 1 and one group"
    if max(weight.shape[2:]) > MOST_WINDOW:
        return f"takes filters of up to {MOST_WINDOW} x {MOST_WINDOW}, not {tuple(weight.shape[2:])}"
    return limits(input, weight, bias, *settings)


def thread_per_output(output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> None:
    kernel = THREAD_PER_OUTPUT["conv2d"][cdiv(output.numel(), THREADS), THREADS]
    kernel(input, weight, rest[0], cuda.out(output), *geometry(input, weight, *rest))


def in_c(output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> None:
    IN_C(input, weight, rest[0], output, *geometry(input, weight, *rest))


def shared_tile(output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> None:
    bias, _, padding, *_ = rest
    n, k, p, q = output.shape
    grid = cdiv(q, SIDE) * cdiv(p, SIDE), cdiv(k, FILTERS), min(n, MOST_GRID)
    kernel = SHARED_TILE[f"conv2d_shared_tile<{FILTERS}>"][grid, (SIDE, SIDE)]
    kernel(input, weight, bias, cuda.out(output), *input.shape, k, *weight.shape[2:], p, q, *padding)


def implicit_gemm(output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> None:
    n, k, p, q = output.shape
    groups = rest[4]
    grid = cdiv(n * p * q, COLUMNS), cdiv(k // groups, tile(k // groups)), groups
    kernel = IMPLICIT_GEMM[f"conv2d_implicit_gemm<{sums(k // groups)}, {side(weight)}>"][grid, COLUMNS]
    kernel(input, weight, rest[0], cuda.out(output), *geometry(input, weight, *rest))


def nhwc_limits(input: torch.Tensor, weight: torch.Tensor, bias: Optional, *settings: Any) -> str | None:
    if settings[3] != 1:
        return f"takes one group, not {settings[3]}"
    if memory_format(input, weight) != torch.channels_last or not has_order(torch.channels_last, input):
        return "takes an input in NHWC order without gaps"
    formats = (torch.contiguous_format, torch.channels_last)
    if not any(has_order(format, weight) for format in formats) or not (bias is None or bias.is_contiguous()):
        return "takes a weight in NCHW or NHWC order, and a bias, without gaps"
    return limits(input, weight, bias, *settings)


def nhwc(output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> None:
    n, k, p, q = output.shape
    channels = input.shape[1] if input.shape[1] in CHANNELS else 0
    order = torch.contiguous_format if weight.is_contiguous() else torch.channels_last
    x, f, y = (in_order(format, one) for format, one in (
        (torch.channels_last, input), (order, weight), (torch.channels_last, output)))  # fmt: skip
    arguments = f"{sums(k)}, {side(weight)}, {channels}, {flags(order == torch.channels_last)}"
    grid = cdiv(n * p * q, COLUMNS), cdiv(k, tile(k))
    kernel = NHWC[f"conv2d_nhwc<{arguments}>"][grid, COLUMNS]
    kernel(x, f, rest[0], cuda.out(y), *geometry(input, weight, *rest)[:-1])


def four_pixels(output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> None:
    n, k, p, q = output.shape
    (_, stride, _, dilation, *_), common = rest, side(weight)
    plain = common and stride[0] == stride[1] and stride[0] in (1, 2) and tuple(dilation) == (1, 1)
    arguments = f"{common}, {stride[0]}" if plain else "0, 0"
    kernel = FOUR_PIXELS[f"conv2d_four_pixels<{arguments}>"][cdiv(n * k * p * cdiv(q, PIXELS), THREADS), THREADS]
    kernel(input, weight, rest[0], cuda.out(output), *geometry(input, weight, *rest))


def direct_tiles(output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> None:
    n, k, h, w = output.shape
    four, filters = groups(k), each(k)
    tile = output_tile(k, h, w, filters)
    blocks = n * tile.bands * tile.sides * cdiv(k, four * filters)
    kernel = DIRECT[f"conv2d_direct<{four}, {filters}>"][blocks, THREADS, tile.shared]
    kernel(input, weight, rest[0], cuda.out(output), *input.shape[1:], k, tile.rows, tile.strips)


triton = lazy_launch(f"{__package__}.k06_triton")


RUNGS = (
    make_rung(HERE, "k01_thread_per_output", "one thread per output element", thread_per_output, dtypes=DTYPES,
              limits=limits),
    Rung("k02_c", "the definition in C, rows vectorised", "c", in_c, HERE / "k02_c.c", dtypes=DTYPES,
         devices=("cpu",)),
    make_rung(HERE, "k03_shared_tile", "image tile and filters in shared memory", shared_tile, dtypes=DTYPES,
              limits=tile_limits),
    make_rung(HERE, "k04_implicit_gemm", "implicit GEMM: patches gathered into shared memory", implicit_gemm,
              dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k05_direct_tiles", "direct sums of 3 x 3 filters from tiles in shared memory", direct_tiles,
              dtypes=DTYPES, limits=direct_limits),
    make_rung(HERE, "k06_triton", "implicit GEMM with tl.dot, on tensor cores with tf32", triton, dtypes=DTYPES,
              limits=limits),
    make_rung(HERE, "k07_nhwc", "NHWC: implicit GEMM of pixels and few channels, vectors of filters stored", nhwc,
              dtypes=DTYPES, limits=nhwc_limits, strided=True),
    make_rung(HERE, "k08_four_pixels", "groups of few filters: four adjacent pixels of a filter per thread",
              four_pixels, dtypes=DTYPES, limits=limits),
)  # fmt: skip


def _is_little(loads: int, products: int, pixels: int) -> bool:
    """True if k08 is predicted to take less time than k04 with few blocks, by times that were fitted on an H200.

    k08 takes 2.3 µs, and 0.42 µs for a million ``loads``. k04 takes 2.8 µs, and 0.13 µs for each of the ``products`` of
    an output; both are a third longer if ``pixels``, those of an image, are not a multiple of 4.
    """
    return 2.3 + 0.42e-6 * loads < (2.8 + 0.13 * products) * (1.0 if pixels % 4 == 0 else 1.35)


def default(*args: Any) -> str | None:
    """For short sums, which are memory-bound: k07 for NHWC images, and k08 or k04 for NCHW images.

    k08 is chosen for little work, for which k04 has few blocks, and for groups of few filters, because k04's tiles have
    16 filters. For longer sums k05 computes few channels of many pixels in NCHW order, and PyTorch all others, because
    cuDNN is faster. NOTES.md has the times.
    """
    input, weight, _, *settings = args
    n, k, p, q = output_shape(*args)
    (stride, *_), groups, tf32 = settings[0], settings[3], settings[4]
    channels, r, s = weight.shape[1:]
    products = channels * r * s
    if memory_format(input, weight) == torch.channels_last:
        tiles, vectors = cdiv(n * p * q, COLUMNS) * cdiv(k, tile(k)), k % 4 == 0
        long = products <= SHORT_SUM and vectors and tiles >= MANY_TILES and not tf32
        short = products <= SHORT_NHWC and (vectors or tiles >= FEW_TILES)
        return first_taking(SPEC, RUNGS, args, "k07_nhwc") if short or long else None
    if not input.is_contiguous():
        return None
    if products <= (SHORT_TF32 if tf32 else SHORT_SUM):
        loads = n * k * p * cdiv(q, PIXELS) * channels * r * (2 * s + (PIXELS - 1) * stride)
        few = k // groups < FEW_FILTERS or _is_little(loads, products, p * q)
        if channels <= FEW_CHANNELS and few:
            return first_taking(SPEC, RUNGS, args, "k08_four_pixels")
        many = channels <= FEW_CHANNELS or loads > LITTLE_WORK
        return first_taking(SPEC, RUNGS, args, "k04_implicit_gemm") if many else None
    few = input.shape[1] <= DIRECT_CHANNELS and k <= DIRECT_FILTERS
    many = input.numel() >= DIRECT_PIXELS * input.shape[1]
    return first_taking(SPEC, RUNGS, args, "k05_direct_tiles") if few and many and not tf32 else None
