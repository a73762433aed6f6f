"""The specification of the update of running statistics, of one layer or of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same_shape, check_tensor, draw

DTYPES = (torch.float32,)
Tensors = Sequence[torch.Tensor]
OptionalTensors = Tensors | None


class Layer(NamedTuple):
    """The arguments of one layer: tensors (C,), but ``batches`` of one element."""

    running_mean: torch.Tensor
    running_var: torch.Tensor
    batches: torch.Tensor
    mean: torch.Tensor
    var: torch.Tensor
    bias: torch.Tensor | None
    momentum: float
    correction: float


def layers(
    running_mean: Tensors,
    running_var: Tensors,
    batches: Tensors,
    mean: Tensors,
    var: Tensors,
    bias: OptionalTensors,
    momentum: Sequence[float],
    correction: Sequence[float],
) -> Iterator[Layer]:
    biases: Sequence[torch.Tensor | None] = bias or [None] * len(running_mean)
    lists = (running_mean, running_var, batches, mean, var, biases, momentum, correction)
    return map(Layer._make, zip(*lists, strict=True))


def check(running_mean: Tensors, *rest: Any) -> None:
    op, count = "running_statistics", len(running_mean)
    names = ("running_var", "batches", "mean", "var", "bias", "momentum", "correction")
    if not count:
        raise ValueError(f"{op}: expected running_mean with at least one tensor, got none")
    for name, values in zip(names, rest, strict=True):
        if values is not None and len(values) != count:
            raise ValueError(f"{op}: expected {name} of {count} elements, as running_mean, got {len(values)}")
    for number, layer in enumerate(layers(running_mean, *rest)):
        check_tensor(op, f"running_mean[{number}]", layer.running_mean, FLOATS, dims=(1,))
        check_tensor(op, f"batches[{number}]", layer.batches, (torch.int64,), dims=(0,))
        given = {name: getattr(layer, name) for name in ("running_mean", "running_var", "mean", "var", "bias")}
        found = {f"{name}[{number}]": value for name, value in given.items() if value is not None}
        for name, value in found.items():
            check_tensor(op, name, value, (running_mean[0].dtype,))
        check_same_shape(op, list(found), list(found.values()))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``count`` layers (default 2) of c, c + 3, c + 6, ... channels each; biases with the attribute ``biased``."""
    channels, count = case.sizes["channels"], case.attributes.get("count", 2)
    shapes = [(channels + 3 * at if channels > 1 else channels,) for at in range(count)]
    made: dict[str, Any] = {
        name: [
            draw(shape, dtype, device, 150 * seed + 30 * at + number, case.values, 2)
            for number, shape in enumerate(shapes)
        ]
        for at, name in enumerate(("running_mean", "running_var", "mean", "var", "bias"))
    }
    if not case.attributes.get("biased"):
        made["bias"] = None
    made["batches"] = [
        torch.empty((), dtype=torch.int64, device=device) if device.type == "meta"
        else torch.tensor(7 + 13 * seed + 100 * number, device=device)
        for number in range(count)
    ]  # fmt: skip
    factors = range(count)
    return {**made, "momentum": [0.2 + 0.01 * at for at in factors], "correction": [1.25 + 0.1 * at for at in factors]}


def eager(*args: Any) -> None:
    for one in layers(*args):
        one.batches.add_(1)
        mean = one.mean if one.bias is None else one.mean + one.bias
        one.running_mean.mul_(1 - one.momentum).add_(mean, alpha=one.momentum)
        one.running_var.mul_(1 - one.momentum).add_(one.var, alpha=one.momentum * one.correction)


def reference(*args: Any) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    means, variances, batches = [], [], []
    for one in layers(*args):
        mean = one.mean.double() if one.bias is None else one.mean.double() + one.bias.double()
        kept = 1 - one.momentum
        means.append(kept * one.running_mean.double() + one.momentum * mean)
        variances.append(kept * one.running_var.double() + one.momentum * one.correction * one.var.double())
        batches.append(one.batches + 1)
    return means, variances, batches


def largest(*args: Any) -> torch.Tensor:
    """One scale for all layers: the sum of the largest elements of each list, times the largest correction."""
    lists = (*args[:2], *args[3:5], args[5] or ())
    found = [[value.double().abs().max() for value in values if value.numel()] for values in lists]
    return max(args[7]) * sum((max(values) for values in found if values), torch.zeros((), dtype=torch.float64))


def cost(running_mean: Tensors, *rest: Any) -> Cost:
    return Cost(bytes=6 * sum(one.nbytes for one in running_mean), flops=8 * sum(one.numel() for one in running_mean))


SPEC = Spec(
    schema="running_statistics(Tensor(a!)[] running_mean, Tensor(b!)[] running_var, Tensor(c!)[] batches,"
    " Tensor[] mean, Tensor[] var, Tensor[]? bias, float[] momentum, float[] correction) -> ()",
    summary="running statistics of batch normalisation moved towards those of a batch, in place",
    outputs={"running_mean": Output(terms=3, magnitude=largest), "running_var": Output(terms=2, magnitude=largest)},
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("few", {"channels": 16}, {"biased": True}),
        Case("one_layer", {"channels": 40}, {"biased": True, "count": 1}),
        Case("many_layers", {"channels": 9}, {"count": 6}),
        Case("ragged", {"channels": 301}),
        Case("one_element", {"channels": 1}),
        Case("empty", {"channels": 0}),
        Case("huge", {"channels": 9}, {"biased": True}, values="huge"),
        Case("strided", {"channels": 12}, {"biased": True}, layout="strided"),
        Case("unaligned", {"channels": 12}, layout="unaligned"),
    ),
    sizes=(Case("block", {"channels": 32}), Case("wide", {"channels": 2048})),
    dtypes=DTYPES,
)
