"""The ladder of batch_norm_backward, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.operation import make_rung
from warpwise.ops._defaults import first_taking
from warpwise.ops.batch_norm import _launch
from warpwise.ops.batch_norm._launch import THREADS, parts, sizes, vector
from warpwise.ops.batch_norm.spec import DTYPES, Optional

HERE = Path(__file__).parent
BLOCK_PER_CHANNEL = cuda.load(HERE / "k01_block_per_channel.cu")
SPLIT_CHANNELS = cuda.load(HERE / "k02_split_channels.cu")
Gradients = tuple[torch.Tensor, Optional, Optional]


def limits(dy: Optional, dmean: Optional, dvar: Optional, input: torch.Tensor, *rest: Any) -> str | None:
    return _launch.limits(input)


def _out(tensor: Optional) -> Any:
    return None if tensor is None else cuda.out(tensor)


def block_per_channel(outputs: Gradients, *args: Any) -> None:
    dy, dmean, dvar, input, weight, _, eps, mean, var = args
    kernel = BLOCK_PER_CHANNEL["batch_norm_backward"][input.shape[1], THREADS]
    dx = cuda.out(outputs[0]) if input.numel() else None
    kernel(dy, dmean, dvar, input, weight, mean, var, dx, *map(_out, outputs[1:]), *sizes(input), eps)


def split_channels(outputs: Gradients, *args: Any) -> None:
    dy, dmean, dvar, input, weight, _, eps, mean, var = args
    dx, dw, db = outputs
    channels, split, width = input.shape[1], parts(input), vector(input, dx, dy)
    partials, counters = input.new_empty((channels, split, 2)), semaphores(input, channels)
    sums = input.new_empty((channels, 2))
    grid = (split, channels), THREADS
    SPLIT_CHANNELS[f"gradient_sums<{width}>"][grid](
        dy, input, mean, var, cuda.out(sums), _out(dw), _out(db), partials, counters, *sizes(input), eps
    )
    if input.numel():
        kernel = SPLIT_CHANNELS[f"gradient_of_input<{width}>"][grid]
        kernel(dy, dmean, dvar, input, weight, mean, var, sums, cuda.out(dx), *sizes(input), eps)


RUNGS = (
    make_rung(HERE, "k01_block_per_channel", "one block per channel, two passes", block_per_channel, dtypes=DTYPES,
              limits=limits),
    make_rung(HERE, "k02_split_channels", "several blocks per channel, 16-byte accesses", split_channels, dtypes=DTYPES,
              limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k02 if the forward's default is a rung, because PyTorch's backward of it takes a dozen launches."""
    return first_taking(RUNGS, args, "k02_split_channels") if _launch.is_row_long(args[3]) else None
