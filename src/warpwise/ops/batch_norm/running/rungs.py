"""The ladder of running_statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung
from warpwise.ops._defaults import first_taking
from warpwise.ops.batch_norm.running.spec import DTYPES

HERE = Path(__file__).parent
THREADS, MOST_CHANNELS = 128, 2**30
ONE_LAUNCH = cuda.load(HERE / "k01_one_launch.cu")


def limits(running_mean: torch.Tensor, *rest: Any) -> str | None:
    count = running_mean.numel()
    return f"takes up to {MOST_CHANNELS} channels, not {count}" if count > MOST_CHANNELS else None


def one_launch(outputs: object, *args: Any) -> None:
    *tensors, momentum, correction = args
    channels = tensors[0].numel()
    kernel = ONE_LAUNCH["running_statistics"][max(1, cdiv(channels, THREADS)), THREADS]
    kernel(*tensors, channels, momentum, correction)


RUNGS = (
    make_rung(HERE, "k01_one_launch", "both statistics and the count in one launch", one_launch, dtypes=DTYPES,
              limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k01: one launch instead of PyTorch's five."""
    return first_taking(RUNGS, args, "k01_one_launch")
