"""The ladder of batch_norm_backward, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.operation import Rung, lazy_launch, make_rung
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops.batch_norm import _launch
from warpwise.ops.batch_norm._launch import THREADS, flat, image_vectors, in_rows, parts, sizes, vector
from warpwise.ops.batch_norm.spec import BACKWARD, DTYPES, Optional

HERE = Path(__file__).parent
BLOCK_PER_CHANNEL = cuda.load(HERE / "k01_block_per_channel.cu")
SPLIT_CHANNELS = cuda.load(HERE / "k02_split_channels.cu")
WHOLE_CHANNEL = cuda.load(HERE / "k04_whole_channel.cu")
CHANNELS_LAST = cuda.load(HERE / "k03_channels_last.cu")
PARTIAL_SUMS = cuda.load(HERE / "k07_partial_sums.cu")
CHANNEL_PARTS = cuda.load(HERE / "k08_channel_parts.cu")
IN_C = function(HERE / "k06_c.c", "batch_norm_backward", "pppppppppplllf")
FLOAT32 = (torch.float32,)
Gradients = tuple[torch.Tensor, Optional, Optional]


def limits(dy: Optional, dmean: Optional, dvar: Optional, input: torch.Tensor, *rest: Any) -> str | None:
    weight, bias, _, *statistics = rest
    for name, value in zip(("grad_mean", "grad_var", "mean", "var"), (dmean, dvar, *statistics), strict=True):
        if value is not None and value.dtype != torch.float32:
            return f"takes {name} of float32, not {value.dtype}"
    if dy is not None and dy.dtype != input.dtype:
        return f"takes grad_output of {input.dtype}, not {dy.dtype}"
    return _launch.same_parameters(weight, bias) or _launch.limits(input)


def row_limits(dy: Optional, dmean: Optional, dvar: Optional, input: torch.Tensor, *rest: Any) -> str | None:
    if not in_rows(input) or not (dy is None or in_rows(dy)):
        return "takes channels that are adjacent in memory, (N, H, W, C) or (N, C) without gaps"
    return limits(dy, dmean, dvar, input, *rest)


def _out(tensor: Optional) -> Any:
    return None if tensor is None else cuda.out(tensor)


def block_per_channel(outputs: Gradients, *args: Any) -> None:
    dy, dmean, dvar, input, weight, _, eps, mean, var = args
    kernel = BLOCK_PER_CHANNEL["batch_norm_backward"][input.shape[1], THREADS]
    dx = cuda.out(outputs[0]) if input.numel() else None
    kernel(dy, dmean, dvar, input, weight, mean, var, dx, *map(_out, outputs[1:]), *sizes(input), eps)


def split_channels(outputs: Gradients, *args: Any) -> None:
    dy, dmean, dvar, input, weight, bias, eps, mean, var = args
    dx, dw, db = outputs
    channels, split, width = input.shape[1], parts(input), vector(sizes(input)[2], input, dx, dy)
    types = f"{cuda.ctype(input.dtype)}, {_launch.parameter_type(input, weight, bias)}, {width}"
    partials, counters = mean.new_empty((channels, split, 2)), semaphores(input, channels)
    sums = mean.new_empty((channels, 2))
    grid = (split, channels), THREADS
    SPLIT_CHANNELS[f"gradient_sums<{types}>"][grid](
        dy, input, mean, var, cuda.out(sums), _out(dw), _out(db), partials, counters, *sizes(input), eps
    )
    if input.numel():
        kernel = SPLIT_CHANNELS[f"gradient_of_input<{types}>"][grid]
        kernel(dy, dmean, dvar, input, weight, mean, var, sums, cuda.out(dx), *sizes(input), eps)


def channels_last(outputs: Gradients, *args: Any) -> None:
    dy, dmean, dvar, input, weight, bias, eps, mean, var = args
    dx, dw, db = outputs
    count, channels, width, across, split, blocks, tiles, threads = _launch.rows(input, dx, dy)
    types = f"{cuda.ctype(input.dtype)}, {_launch.parameter_type(input, weight, bias)}, {width}"
    partials, counters = mean.new_empty((split, channels, 2)), semaphores(input, tiles)
    sums, x, g = mean.new_empty((channels, 2)), flat(input), dy if dy is None else flat(dy)
    grid = (split, tiles), threads
    kernel = CHANNELS_LAST[f"gradient_column_sums<{types}>"][grid]
    outs = (cuda.out(sums), _out(dw), _out(db))
    kernel(g, x, mean, var, *outs, partials, counters, count, channels, across, eps)
    if input.numel():
        kernel = CHANNELS_LAST[f"gradient_of_rows<{types}>"][(blocks, tiles), threads]
        kernel(g, dmean, dvar, x, weight, mean, var, sums, cuda.out(flat(dx)), count, channels, across, eps)


def whole_channel(outputs: Gradients, *args: Any) -> None:
    dy, dmean, dvar, input, weight, bias, eps, mean, var = args
    dx, dw, db = outputs
    vectors = image_vectors(input, dx, dy)
    threads = vectors.threads
    types = f"{cuda.ctype(input.dtype)}, {_launch.parameter_type(input, weight, bias)}"
    kernel = WHOLE_CHANNEL[f"gradient_of_channel<{types}, {vectors.template}, {threads}>"][input.shape[1], threads]
    outs = (cuda.out(dx) if input.numel() else None, _out(dw), _out(db))
    kernel(dy, dmean, dvar, input, weight, mean, var, *outs, *sizes(input), eps)


triton = lazy_launch(f"{__package__}.k05_triton")


def in_c(outputs: Gradients, *args: Any) -> None:
    dy, dmean, dvar, input, weight, _, eps, mean, var = args
    IN_C(dy, dmean, dvar, input, weight, mean, var, *outputs, *sizes(input), eps)


def partial_sums(outputs: Gradients, *args: Any) -> None:
    dy, dmean, dvar, input, weight, bias, eps, mean, var = args
    dx, dw, db = outputs
    count, channels, width, across, split, blocks, tiles, threads = _launch.rows_of_parts(input, dx, dy)
    type, parameters = cuda.ctype(input.dtype), _launch.parameter_type(input, weight, bias)
    partials, x, g = mean.new_empty((split, channels, 2)), flat(input), dy if dy is None else flat(dy)
    kernel = PARTIAL_SUMS[f"gradient_column_sums<{type}, {width}>"][(split, tiles), threads]
    kernel(g, x, mean, var, cuda.out(partials), count, channels, across, eps)
    kernel = PARTIAL_SUMS[f"gradient_of_rows<{type}, {parameters}, {width}>"][(blocks, tiles), threads]
    outs = (cuda.out(flat(dx)) if input.numel() else None, _out(dw), _out(db))
    kernel(g, dmean, dvar, x, weight, mean, var, partials, split, *outs, count, channels, across, eps)


def channel_parts(outputs: Gradients, *args: Any) -> None:
    dy, dmean, dvar, input, weight, bias, eps, mean, var = args
    dx, dw, db = outputs
    channels, split, vectors = input.shape[1], parts(input), image_vectors(input, dx, dy).template
    type, parameters = cuda.ctype(input.dtype), _launch.parameter_type(input, weight, bias)
    partials, grid = mean.new_empty((channels, split, 2)), ((split, channels), THREADS)
    kernel = CHANNEL_PARTS[f"gradient_sums<{type}, {vectors}>"][grid]
    kernel(dy, input, mean, var, cuda.out(partials), *sizes(input), eps)
    outs = (cuda.out(dx) if input.numel() else None, _out(dw), _out(db))
    kernel = CHANNEL_PARTS[f"gradient_of_input<{type}, {parameters}, {vectors}>"][grid]
    kernel(dy, dmean, dvar, input, weight, mean, var, partials, split, *outs, *sizes(input), eps)


RUNGS = (
    make_rung(HERE, "k01_block_per_channel", "one block per channel, two passes", block_per_channel, dtypes=FLOAT32,
              limits=limits),
    make_rung(HERE, "k02_split_channels", "several blocks per channel, 16-byte accesses", split_channels, dtypes=DTYPES,
              limits=limits),
    make_rung(HERE, "k03_channels_last", "NHWC and (N, C): 16 bytes of channels of many rows", channels_last,
              dtypes=DTYPES, limits=row_limits, strided=True),
    make_rung(HERE, "k04_whole_channel", "one launch, a block of up to 1024 threads per channel", whole_channel,
              dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k05_triton", "several programs per channel in Triton, which all add the partial sums", triton,
              dtypes=DTYPES, limits=limits),
    Rung("k06_c", "the definition in C", "c", in_c, HERE / "k06_c.c", dtypes=FLOAT32, devices=("cpu",)),
    make_rung(HERE, "k07_partial_sums", "NHWC: each block of the second launch adds the partial sums", partial_sums,
              dtypes=DTYPES, limits=row_limits, strided=True),
    make_rung(HERE, "k08_channel_parts", "several blocks per channel, each of which adds the partial sums",
              channel_parts, dtypes=DTYPES, limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k07 if channels are adjacent in memory, else k04 or k08 by the channel, as in the forward."""
    if args[3].dtype not in DTYPES:
        return None
    channel = "k04_whole_channel" if _launch.is_whole(args[3], args[0]) else "k08_channel_parts"
    return first_taking(BACKWARD, RUNGS, args, "k07_partial_sums", channel)
