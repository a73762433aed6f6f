"""The ladder of running_statistics, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpwise import cuda
from warpwise.operation import cdiv, make_rung
from warpwise.ops._defaults import first_taking
from warpwise.ops.batch_norm.running.spec import DTYPES, SPEC, Tensors, layers

HERE = Path(__file__).parent
THREADS, MAX_CHANNELS = 128, 2**30
AT_ONCE = 4  # layers of a launch of k02
LAUNCH_PER_LAYER = cuda.load(HERE / "k01_launch_per_layer.cu")
ONE_LAUNCH = cuda.load(HERE / "k02_one_launch.cu")


def limits(running_mean: Tensors, *rest: Any) -> str | None:
    most = max((one.numel() for one in running_mean), default=0)
    return f"takes up to {MAX_CHANNELS} channels, not {most}" if most > MAX_CHANNELS else None


def launch_per_layer(outputs: object, *args: Any) -> None:
    for layer in layers(*args):
        *tensors, momentum, correction = layer
        channels = layer.running_mean.numel()
        kernel = LAUNCH_PER_LAYER["running_statistics"][max(1, cdiv(channels, THREADS)), THREADS]
        kernel(*tensors, channels, momentum, correction)


def one_launch(outputs: object, *args: Any) -> None:
    given = list(layers(*args))
    for start in range(0, len(given), AT_ONCE):
        group = given[start : start + AT_ONCE]
        absent = AT_ONCE - len(group)
        *tensors, momenta, corrections = (list(values) for values in zip(*group, strict=True))
        channels = [layer.running_mean.numel() for layer in group]
        kernel = ONE_LAUNCH["running_statistics"][(max(1, cdiv(max(channels), THREADS)), len(group)), THREADS]
        kernel(
            *(value for values in tensors for value in [*values, *[None] * absent]),
            *(*channels, *[0] * absent, *momenta, *[0.0] * absent, *corrections, *[0.0] * absent),
        )


RUNGS = (
    make_rung(HERE, "k01_launch_per_layer", "both statistics and the count of a layer in one launch",
              launch_per_layer, dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k02_one_launch", "four layers in one launch", one_launch, dtypes=DTYPES, limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k02: one launch instead of PyTorch's five for each layer."""
    return first_taking(SPEC, RUNGS, args, "k02_one_launch")
