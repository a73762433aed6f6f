"""The ladder of conv2d_backward, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.arguments.layout import memory_format
from warpwise.operation import Rung, cdiv, lazy_launch, make_rung, sm_count
from warpwise.ops._c import function
from warpwise.ops._conv3x3 import add_parts, add_splits, flags, inputs, weights
from warpwise.ops._defaults import first_taking
from warpwise.ops.conv2d import _launch
from warpwise.ops.conv2d._launch import MOST_GRID, geometry, template, tile
from warpwise.ops.conv2d.spec import BACKWARD, DTYPES, Three

HERE = Path(__file__).parent
THREADS = 256  # of a block of k01
COLUMNS = 128  # kColumns, and threads of a block of k02
BLOCKS_PER_SM = 4  # resident blocks of 128 threads
SHORTEST = 256  # fewest pixels of a split
THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
IMPLICIT_GEMM = cuda.load(HERE / "k02_implicit_gemm.cu")
DIRECT = cuda.load(HERE / "k03_direct_tiles.cu")
IN_C = function(HERE / "k05_c.c", "conv2d_backward", "ppppppllllllllllllllll")
MOST_CHANNELS = 16  # of an input that the default takes


def limits(grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return _launch.limits(input, weight, *rest[:5])


def _out(tensor: torch.Tensor | None) -> Any:
    return None if tensor is None else cuda.out(tensor)


def thread_per_element(
    outputs: Three, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any
) -> None:
    dx, dw, db = outputs
    sizes = geometry(input, weight, *rest)
    if dx is not None and dx.numel():
        kernel = THREAD_PER_ELEMENT["conv2d_grad_input"][cdiv(dx.numel(), THREADS), THREADS]
        kernel(grad_output, weight, cuda.out(dx), *sizes)
    if dw is not None:
        kernel = THREAD_PER_ELEMENT["conv2d_grad_weight"][cdiv(dw.numel(), THREADS), THREADS]
        kernel(grad_output, input, cuda.out(dw), *sizes)
    if db is not None:
        pixels = grad_output.shape[2] * grad_output.shape[3]
        kernel = THREAD_PER_ELEMENT["conv2d_grad_bias"][cdiv(db.numel(), THREADS), THREADS]
        kernel(grad_output, cuda.out(db), input.shape[0], weight.shape[0], pixels)


def splits(grad_output: torch.Tensor, blocks: int, groups: int) -> tuple[int, int]:
    """The number of splits of a sum over pixels so that ``blocks`` occupy the GPU, and the pixels of each split."""
    pixels = max(1, grad_output.numel() // grad_output.shape[1])
    wanted = cdiv(BLOCKS_PER_SM * sm_count(grad_output), blocks)
    count = max(1, min(wanted, cdiv(pixels, SHORTEST), MOST_GRID // groups))
    share = cdiv(pixels, count)
    return cdiv(pixels, share), share


def implicit_gemm(
    outputs: Three, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any
) -> None:
    dx, dw, db = outputs
    sizes, groups = geometry(input, weight, *rest), rest[4]
    n, c, h, w = input.shape
    if dx is not None and dx.numel():
        grid = cdiv(n * h * w, COLUMNS), cdiv(c // groups, tile(c // groups)), groups
        kernel = IMPLICIT_GEMM[f"conv2d_grad_input_gemm<{template(c // groups, weight, *rest[1:])}>"][grid, COLUMNS]
        kernel(grad_output, weight, cuda.out(dx), *sizes)
    if dw is None and db is None:
        return
    filters = weight.shape[0] // groups
    grid = cdiv(weight[0].numel() + 1, COLUMNS), cdiv(filters, tile(filters)), groups
    count, share = splits(grad_output, grid[0] * grid[1] * groups, groups)
    partials = grad_output.new_empty((count, weight.numel() + weight.shape[0]))
    name = f"conv2d_grad_weight_gemm<{template(filters, weight, *rest[1:])}>"
    kernel = IMPLICIT_GEMM[name][(*grid[:2], groups * count), COLUMNS]
    kernel(grad_output, input, cuda.out(partials), share, *sizes)
    kernel = IMPLICIT_GEMM["conv2d_add_partials"][cdiv(partials.shape[1], THREADS), THREADS]
    kernel(partials, _out(dw), _out(db), count, weight.numel(), weight.shape[0])


def direct_limits(grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return _launch.direct_limits(input, weight, *rest[:5])


def direct_tiles(
    outputs: Three, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any
) -> None:
    dx, dw, db = outputs
    n, c, h, w = input.shape
    k = weight.shape[0]
    if not grad_output.numel():
        implicit_gemm(outputs, grad_output, input, weight, *rest)
        return
    plan, given = weights(n, c, h, w, k, sm_count(input)), inputs(n, c, h, w, k, sm_count(input))
    tile, blocks = given.tile, given.blocks if dx is not None else 0
    split = input.new_empty((given.splits, *input.shape)) if dx is not None and given.splits > 1 else None
    summed = plan.blocks if dw is not None or db is not None else 0
    partials = input.new_empty((plan.parts, weight.numel())) if summed else None
    biases = input.new_empty((plan.parts, k)) if db is not None else None
    shared = max(plan.tile.shared if summed else 0, tile.shared if blocks else 0)
    pairs = flags(w % 2 == 0 and grad_output.data_ptr() % 8 == 0)
    if summed + blocks:
        kernel = DIRECT[f"conv2d_gradients<{plan.channels}, {plan.filters}, {given.each}, {pairs}>"]
        tiles = (plan.share, plan.tile.rows, plan.tile.strips, tile.rows, tile.strips, given.splits, given.share)
        outs = map(_out, (dx if split is None else split, partials, biases))
        kernel[summed + blocks, THREADS, shared](grad_output, input, weight, *outs, n, c, h, w, k, summed, *tiles)
    if dx is not None and split is not None:
        add_splits(DIRECT, split, dx)
    for parts, sums in ((partials, dw), (biases, db)):
        if parts is not None and sums is not None:
            add_parts(DIRECT, parts, sums)


triton = lazy_launch(f"{__package__}.k04_triton")


def in_c(outputs: Three, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> None:
    IN_C(grad_output, input, weight, *outputs, *geometry(input, weight, *rest))


RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread per element of each gradient", thread_per_element,
              dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k02_implicit_gemm", "implicit GEMM: patches gathered into shared memory, split sums",
              implicit_gemm, dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k03_direct_tiles", "direct sums of 3 x 3 filters from tiles in shared memory", direct_tiles,
              dtypes=DTYPES, limits=direct_limits),
    make_rung(HERE, "k04_triton", "implicit GEMMs with tl.dot, split sums", triton, dtypes=DTYPES, limits=limits),
    Rung("k05_c", "the definition in C", "c", in_c, HERE / "k05_c.c", dtypes=DTYPES, devices=("cpu",)),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k03 up to 16 channels in NCHW order, for which PyTorch takes several times k03's predicted time; else PyTorch.

    With one channel the gradients of input and weight have both orders.
    """
    grad_output, input, weight = args[:3]
    taken = input.shape[1] <= MOST_CHANNELS and grad_output.is_contiguous() and input.is_contiguous()
    taken = taken and (input.shape[1] == 1 or memory_format(input, weight) != torch.channels_last)
    return first_taking(BACKWARD, RUNGS, args, "k03_direct_tiles") if taken else None
