"""The ladder of batch_norm, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.arguments.layout import has_nhwc_strides
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.operation import Rung, lazy_launch, make_rung
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops.batch_norm import _launch
from warpwise.ops.batch_norm._launch import (
    THREADS,
    flat,
    image_vectors,
    in_rows,
    is_row_long,
    limits,
    parts,
    sizes,
    vector,
)
from warpwise.ops.batch_norm.spec import DTYPES, SPEC, Optional, Three

HERE = Path(__file__).parent
BLOCK_PER_CHANNEL = cuda.load(HERE / "k01_block_per_channel.cu")
SPLIT_CHANNELS = cuda.load(HERE / "k03_split_channels.cu")
WHOLE_CHANNEL = cuda.load(HERE / "k05_whole_channel.cu")
CHANNELS_LAST = cuda.load(HERE / "k04_channels_last.cu")
PARTIAL_SUMS = cuda.load(HERE / "k07_partial_sums.cu")
CHANNEL_PARTS = cuda.load(HERE / "k08_channel_parts.cu")
FLOAT32 = (torch.float32,)
IN_C = function(HERE / "k02_c.c", "batch_norm", "pppppplllf")


def block_per_channel(outputs: Three, input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> None:
    kernel = BLOCK_PER_CHANNEL["batch_norm"][input.shape[1], THREADS]
    kernel(input, weight, bias, *(cuda.out(tensor) for tensor in outputs), *sizes(input), eps)


def in_c(outputs: Three, input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> None:
    IN_C(input, weight, bias, *outputs, *sizes(input), eps)


def split_channels(outputs: Three, input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> None:
    output, mean, var = outputs
    channels, split, width = input.shape[1], parts(input), vector(sizes(input)[2], input, output)
    types = f"{cuda.ctype(input.dtype)}, {_launch.parameter_type(input, weight, bias)}"
    partials, counters = mean.new_empty((channels, split, 2)), semaphores(input, channels)
    grid = (split, channels), THREADS
    SPLIT_CHANNELS[f"batch_statistics<{cuda.ctype(input.dtype)}, {width}>"][grid](
        input, cuda.out(mean), cuda.out(var), partials, counters, *sizes(input)
    )
    if input.numel():
        kernel = SPLIT_CHANNELS[f"normalise<{types}, {width}>"][grid]
        kernel(input, mean, var, weight, bias, cuda.out(output), *sizes(input), eps)


def _split_limits(input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> str | None:
    return _launch.same_parameters(weight, bias) or limits(input)


def _row_limits(input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> str | None:
    if not in_rows(input):
        return "takes channels that are adjacent in memory, (N, H, W, C) or (N, C) without gaps"
    return _launch.same_parameters(weight, bias) or limits(input)


def channels_last(outputs: Three, input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> None:
    output, mean, var = outputs
    count, channels, width, across, split, blocks, tiles, threads = _launch.rows(input, output)
    types = f"{cuda.ctype(input.dtype)}, {_launch.parameter_type(input, weight, bias)}"
    partials, counters = mean.new_empty((split, channels, 2)), semaphores(input, tiles)
    grid = (split, tiles), threads
    kernel = CHANNELS_LAST[f"column_statistics<{cuda.ctype(input.dtype)}, {width}>"][grid]
    kernel(flat(input), cuda.out(mean), cuda.out(var), partials, counters, count, channels, across)
    if input.numel():
        kernel = CHANNELS_LAST[f"normalise_rows<{types}, {width}>"][(blocks, tiles), threads]
        kernel(flat(input), mean, var, weight, bias, cuda.out(flat(output)), count, channels, across, eps)


def whole_channel(outputs: Three, input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> None:
    output, mean, var = outputs
    vectors = image_vectors(input, output, shift_halves=True)
    types = f"{cuda.ctype(input.dtype)}, {_launch.parameter_type(input, weight, bias)}"
    threads = vectors.threads
    kernel = WHOLE_CHANNEL[f"normalise_channel<{types}, {vectors.template}, {threads}>"][input.shape[1], threads]
    out = cuda.out(output) if input.numel() else None
    kernel(input, weight, bias, out, cuda.out(mean), cuda.out(var), *sizes(input), eps)


def partial_sums(outputs: Three, input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> None:
    output, mean, var = outputs
    count, channels, width, across, split, blocks, tiles, threads = _launch.rows_of_parts(input, output)
    type, parameters = cuda.ctype(input.dtype), _launch.parameter_type(input, weight, bias)
    partials, x = mean.new_empty((split, channels, 2)), flat(input)
    kernel = PARTIAL_SUMS[f"column_sums<{type}, {width}>"][(split, tiles), threads]
    kernel(x, cuda.out(partials), count, channels, across)
    kernel = PARTIAL_SUMS[f"normalise_rows<{type}, {parameters}, {width}>"][(blocks, tiles), threads]
    outs = (cuda.out(mean), cuda.out(var), cuda.out(flat(output)) if input.numel() else None)
    kernel(x, partials, split, weight, bias, *outs, count, channels, across, eps)


def channel_parts(outputs: Three, input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> None:
    output, mean, var = outputs
    channels, split, vectors = input.shape[1], parts(input), image_vectors(input, output).template
    type, parameters = cuda.ctype(input.dtype), _launch.parameter_type(input, weight, bias)
    partials, grid = mean.new_empty((channels, split, 2)), ((split, channels), THREADS)
    CHANNEL_PARTS[f"batch_sums<{type}, {vectors}>"][grid](input, cuda.out(partials), *sizes(input))
    outs = (cuda.out(mean), cuda.out(var), cuda.out(output) if input.numel() else None)
    kernel = CHANNEL_PARTS[f"normalise<{type}, {parameters}, {vectors}>"][grid]
    kernel(input, partials, split, weight, bias, *outs, *sizes(input), eps)


triton = lazy_launch(f"{__package__}.k06_triton")


RUNGS = (
    make_rung(HERE, "k01_block_per_channel", "one block per channel, three passes", block_per_channel, dtypes=FLOAT32,
              limits=limits),
    Rung("k02_c", "the definition in C", "c", in_c, HERE / "k02_c.c", dtypes=FLOAT32, devices=("cpu",)),
    make_rung(HERE, "k03_split_channels", "several blocks per channel, shifted sums in one pass", split_channels,
              dtypes=DTYPES, limits=_split_limits),
    make_rung(HERE, "k04_channels_last", "NHWC and (N, C): 16 bytes of channels of many rows", channels_last,
              dtypes=DTYPES, limits=_row_limits, strided=True),
    make_rung(HERE, "k05_whole_channel", "one launch, a block of up to 1024 threads per channel", whole_channel,
              dtypes=DTYPES, limits=_split_limits),
    make_rung(HERE, "k06_triton", "several programs per channel in Triton, which all add the partial sums", triton,
              dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k07_partial_sums", "NHWC: each block of the second launch adds the partial sums", partial_sums,
              dtypes=DTYPES, limits=_row_limits, strided=True),
    make_rung(HERE, "k08_channel_parts", "several blocks per channel, each of which adds the partial sums",
              channel_parts, dtypes=DTYPES, limits=_split_limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k07 if channels are adjacent in memory; PyTorch for rows shorter than a sector, and for NHWC with gaps; else k05
    or k08 by the channel.
    """
    if in_rows(args[0]):
        return first_taking(SPEC, RUNGS, args, "k07_partial_sums")
    if args[0].shape[1] > 1 and has_nhwc_strides(args[0]):
        return None
    name = "k05_whole_channel" if _launch.is_whole(args[0]) else "k08_channel_parts"
    return first_taking(SPEC, RUNGS, args, name) if is_row_long(args[0]) else None
