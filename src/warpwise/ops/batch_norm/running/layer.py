"""running_statistics of one layer, whose arguments are tensors: its launch is recorded, as are those of other calls.

A call with lists of tensors is not recorded, and takes several times as long on the host.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import Case, Op, cdiv, make_rung
from warpwise.ops._defaults import first_taking
from warpwise.ops.batch_norm.running import spec
from warpwise.ops.batch_norm.running.rungs import MAX_CHANNELS, THREADS

HERE = Path(__file__).parent
KERNELS = cuda.load(HERE / "k01_launch_per_layer.cu")
Two = tuple[torch.Tensor, torch.Tensor]


def _lists(*args: Any) -> tuple[Any, ...]:
    """The arguments of running_statistics."""
    return tuple(None if value is None else [value] for value in args)


def check(*args: Any) -> None:
    spec.check(*_lists(*args))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    made = spec.inputs(replace(case, attributes={**case.attributes, "count": 1}), dtype, device, seed)
    return {name: None if value is None else value[0] for name, value in made.items()}


def eager(*args: Any) -> None:
    spec.eager(*_lists(*args))


def reference(*args: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    means, variances, batches = spec.reference(*_lists(*args))
    return means[0], variances[0], batches[0]


def limits(running_mean: torch.Tensor, *rest: Any) -> str | None:
    channels = running_mean.numel()
    return f"takes up to {MAX_CHANNELS} channels, not {channels}" if channels > MAX_CHANNELS else None


def launch(outputs: object, *args: Any) -> None:
    *tensors, momentum, correction = args
    channels = args[0].numel()
    kernel = KERNELS["running_statistics"][max(1, cdiv(channels, THREADS)), THREADS]
    kernel(*tensors, channels, momentum, correction)


def default(*args: Any) -> str | None:
    return first_taking(SPEC, RUNGS, args, "k01_launch_per_layer")


RUNGS = (
    make_rung(HERE, "k01_launch_per_layer", "both statistics and the count of a layer in one launch", launch,
              dtypes=spec.DTYPES, limits=limits),
)  # fmt: skip
SPEC = replace(
    spec.SPEC,
    schema="layer_statistics(Tensor(a!) running_mean, Tensor(b!) running_var, Tensor(c!) batches, Tensor mean,"
    " Tensor var, Tensor? bias, float momentum, float correction) -> ()",
    summary="running statistics of one layer moved towards those of a batch, in place",
    outputs={
        name: replace(output, magnitude=lambda *args: spec.largest(*_lists(*args)))
        for name, output in spec.SPEC.outputs.items()
    },
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=lambda *args: spec.cost(*_lists(*args)),
    cases=tuple(case for case in spec.SPEC.cases if case.name != "many_layers"),
    varying=("momentum", "correction"),
)
LAYER_STATISTICS = Op(SPEC, RUNGS, default)
