"""The ladder of batch_norm, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.operation import Rung, make_rung
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops.batch_norm._launch import THREADS, is_row_long, limits, parts, sizes, vector
from warpwise.ops.batch_norm.spec import DTYPES, Optional, Three

HERE = Path(__file__).parent
BLOCK_PER_CHANNEL = cuda.load(HERE / "k01_block_per_channel.cu")
SPLIT_CHANNELS = cuda.load(HERE / "k03_split_channels.cu")
IN_C = function(HERE / "k02_c.c", "batch_norm", "pppppplllf")


def block_per_channel(outputs: Three, input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> None:
    kernel = BLOCK_PER_CHANNEL["batch_norm"][input.shape[1], THREADS]
    kernel(input, weight, bias, *(cuda.out(tensor) for tensor in outputs), *sizes(input), eps)


def in_c(outputs: Three, input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> None:
    IN_C(input, weight, bias, *outputs, *sizes(input), eps)


def split_channels(outputs: Three, input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> None:
    output, mean, var = outputs
    channels, split, width = input.shape[1], parts(input), vector(input, output)
    partials, counters = input.new_empty((channels, split, 2)), semaphores(input, channels)
    grid = (split, channels), THREADS
    SPLIT_CHANNELS[f"batch_statistics<{width}>"][grid](
        input, cuda.out(mean), cuda.out(var), partials, counters, *sizes(input)
    )
    if input.numel():
        kernel = SPLIT_CHANNELS[f"normalise<{width}>"][grid]
        kernel(input, mean, var, weight, bias, cuda.out(output), *sizes(input), eps)


RUNGS = (
    make_rung(HERE, "k01_block_per_channel", "one block per channel, three passes", block_per_channel, dtypes=DTYPES,
              limits=limits),
    Rung("k02_c", "the definition in C", "c", in_c, HERE / "k02_c.c", dtypes=DTYPES, devices=("cpu",)),
    make_rung(HERE, "k03_split_channels", "several blocks per channel, shifted sums in one pass", split_channels,
              dtypes=DTYPES, limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k03, 3 to 11 times as fast as PyTorch at the measured sizes; PyTorch if the rows of a channel are short."""
    return first_taking(RUNGS, args, "k03_split_channels") if is_row_long(args[0]) else None
