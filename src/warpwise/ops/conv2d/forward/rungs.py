"""The ladder of conv2d, slowest idea first."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import Rung, cdiv, make_rung
from warpwise.ops._c import function
from warpwise.ops._conv3x3 import each, groups, output_tile
from warpwise.ops._defaults import first_taking
from warpwise.ops.conv2d._launch import MOST_GRID, direct_limits, geometry, limits, template, tile
from warpwise.ops.conv2d.spec import DTYPES, Optional

HERE = Path(__file__).parent
THREADS, COLUMNS = 256, 128  # per block of k01; pixels per tile of k04
SHORT_SUM, FEW_FILTERS = 32, 64  # most products per output, and filters, for which k04 is the default
SIDE, MOST_WINDOW, FILTERS = 16, 7, 16  # kTile, kMostWindow and filters per block of k03
THREAD_PER_OUTPUT = cuda.load(HERE / "k01_thread_per_output.cu")
SHARED_TILE = cuda.load(HERE / "k03_shared_tile.cu")
IMPLICIT_GEMM = cuda.load(HERE / "k04_implicit_gemm.cu")
DIRECT = cuda.load(HERE / "k05_direct_tiles.cu")
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
    kernel = IMPLICIT_GEMM[f"conv2d_implicit_gemm<{template(k // groups, weight, *rest[1:])}>"][grid, COLUMNS]
    kernel(input, weight, rest[0], cuda.out(output), *geometry(input, weight, *rest))


def direct_tiles(output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> None:
    n, k, h, w = output.shape
    four, filters = groups(k), each(k)
    tile = output_tile(k, h, w, filters)
    blocks = n * tile.bands * tile.sides * cdiv(k, four * filters)
    kernel = DIRECT[f"conv2d_direct<{four}, {filters}>"][blocks, THREADS, tile.shared]
    kernel(input, weight, rest[0], cuda.out(output), *input.shape[1:], k, tile.rows, tile.strips)


def triton(output: torch.Tensor, *args: Any) -> None:
    from warpwise.ops.conv2d.forward.k06_triton import launch

    launch(output, *args)


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
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k04 for sums of up to 32 products of NCHW images, which are memory-bound; else PyTorch: cuDNN is faster.

    Measured time of k04 relative to cuDNN: 0.3 for 9 products, as in a first layer; 0.9 to 2 for 144 to 576 products.
    """
    short = math.prod(args[1].shape[1:]) <= SHORT_SUM and len(args[1]) <= FEW_FILTERS
    return first_taking(RUNGS, args, "k04_implicit_gemm") if short and args[0].is_contiguous() else None
