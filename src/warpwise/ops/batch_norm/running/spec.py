"""The specification of the update of running statistics."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same_shape, check_tensor, draw

DTYPES = (torch.float32,)
Optional = torch.Tensor | None


def check(
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    batches: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
    bias: Optional,
    momentum: float,
    correction: float,
) -> None:
    op = "running_statistics"
    check_tensor(op, "running_mean", running_mean, FLOATS, dims=(1,))
    check_tensor(op, "batches", batches, (torch.int64,), dims=(0,))
    names, values = ["running_mean", "running_var", "mean", "var"], [running_mean, running_var, mean, var]
    for name, value in zip(names, values, strict=True):
        check_tensor(op, name, value, FLOATS)
    check_same_shape(op, names, values)
    if bias is not None:
        check_tensor(op, "bias", bias, FLOATS)
        check_same_shape(op, ["running_mean", "bias"], [running_mean, bias])


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``channels`` values each; a bias with the attribute ``biased``."""
    names = ["running_mean", "running_var", "mean", "var", "bias"]
    shape = (case.sizes["channels"],)
    made: dict[str, Any] = {
        name: draw(shape, dtype, device, 5 * seed + at, case.values, 2) for at, name in enumerate(names)
    }
    if not case.attributes.get("biased"):
        made["bias"] = None
    batches = torch.tensor(7 + 13 * seed) if device.type != "meta" else torch.empty((), dtype=torch.int64)
    return {**made, "batches": batches.to(device), "momentum": 0.2, "correction": 1.25}


def eager(
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    batches: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
    bias: Optional,
    momentum: float,
    correction: float,
) -> None:
    batches.add_(1)
    running_mean.mul_(1 - momentum).add_(mean if bias is None else mean + bias, alpha=momentum)
    running_var.mul_(1 - momentum).add_(var, alpha=momentum * correction)


def reference(
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    batches: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
    bias: Optional,
    momentum: float,
    correction: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    new_mean = mean.double() if bias is None else mean.double() + bias.double()
    kept = 1 - momentum
    new_var = kept * running_var.double() + momentum * correction * var.double()
    return kept * running_mean.double() + momentum * new_mean, new_var, batches + 1


def mean_magnitude(running_mean: torch.Tensor, *rest: Any) -> torch.Tensor:
    _, _, mean, _, bias, _, _ = rest
    return running_mean.double().abs() + mean.double().abs() + (0 if bias is None else bias.double().abs())


def var_magnitude(running_mean: torch.Tensor, running_var: torch.Tensor, *rest: Any) -> torch.Tensor:
    return running_var.double().abs() + rest[-1] * rest[2].double().abs()


def cost(running_mean: torch.Tensor, *rest: Any) -> Cost:
    return Cost(bytes=6 * running_mean.nbytes, flops=8 * running_mean.numel())


SPEC = Spec(
    schema="running_statistics(Tensor(a!) running_mean, Tensor(b!) running_var, Tensor(c!) batches, Tensor mean,"
    " Tensor var, Tensor? bias, float momentum, float correction) -> ()",
    summary="running statistics of batch normalisation moved towards those of a batch, in place",
    outputs={
        "running_mean": Output(terms=3, magnitude=mean_magnitude),
        "running_var": Output(terms=2, magnitude=var_magnitude),
    },
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("few", {"channels": 16}, {"biased": True}),
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
