"""The specification of a step of stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same_shape, check_tensor, draw

DTYPES = (torch.float32,)
Tensors = Sequence[torch.Tensor]
Buffers = Tensors | None


def check(
    params: Tensors,
    grads: Tensors,
    buffers: Buffers,
    lr: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
) -> None:
    if not params:
        raise ValueError("sgd: expected params with at least one tensor, got none")
    if len(grads) != len(params):
        raise ValueError(f"sgd: expected a gradient for each of the {len(params)} params, got {len(grads)}")
    wanted = len(params) if momentum else 0
    if len(buffers or ()) != wanted:
        expected = f"{wanted} buffers, one for each of params" if momentum else "no buffers without momentum"
        raise ValueError(f"sgd: expected {expected}, got {len(buffers or ())}")
    if nesterov and not momentum:
        raise ValueError("sgd: expected a momentum above 0 with nesterov, got 0")
    for name, value in (("momentum", momentum), ("weight_decay", weight_decay)):
        if value < 0:
            raise ValueError(f"sgd: expected {name} of at least 0, got {value}")
    check_tensor("sgd", "params[0]", params[0], FLOATS)
    for number, tensor in enumerate(params):
        check_tensor("sgd", f"params[{number}]", tensor, (params[0].dtype,))
        names = [f"{name}[{number}]" for name in ("params", "grads", "buffers")]
        group = [tensor, grads[number], *([buffers[number]] if buffers else [])]
        check_same_shape("sgd", names[: len(group)], group)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``count`` parameters (default 2) of n, n + 3, n + 6, ... elements. Buffers unless momentum is 0."""
    n, count = case.sizes["n"], case.attributes.get("count", 2)
    shapes = [(n + 3 * number if n > 1 else n,) for number in range(count)]
    made: dict[str, Any] = {
        name: [
            draw(shape, dtype, device, 90 * seed + 30 * at + number, case.values, 2)
            for number, shape in enumerate(shapes)
        ]
        for at, name in enumerate(("params", "grads", "buffers"))
    }
    if not case.attributes.get("momentum"):
        made["buffers"] = None
    return {**made, "lr": 0.3}


def _stepped(
    params: Tensors, grads: Tensors, buffers: Buffers, momentum: float, weight_decay: float, nesterov: bool
) -> tuple[list[torch.Tensor], list[torch.Tensor] | None]:
    """The update that lr multiplies, and the new buffers."""
    gradients = [g.double() + weight_decay * p.double() for p, g in zip(params, grads, strict=True)]
    if not buffers:
        return gradients, None
    new = [momentum * b.double() + g for b, g in zip(buffers, gradients, strict=True)]
    return [g + momentum * b for g, b in zip(gradients, new, strict=True)] if nesterov else new, new


def reference(
    params: Tensors,
    grads: Tensors,
    buffers: Buffers,
    lr: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
) -> Any:
    steps, new = _stepped(params, grads, buffers, momentum, weight_decay, nesterov)
    return [p.double() - lr * step for p, step in zip(params, steps, strict=True)], new


def eager(
    params: Tensors,
    grads: Tensors,
    buffers: Buffers,
    lr: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
) -> None:
    """PyTorch's multi-tensor operations, as torch.optim.SGD(foreach=True) uses them."""
    steps = list(grads)
    if weight_decay:
        steps = list(torch._foreach_add(steps, list(params), alpha=weight_decay))
    if buffers:
        torch._foreach_mul_(list(buffers), momentum)
        torch._foreach_add_(list(buffers), steps)
        steps = list(torch._foreach_add(steps, list(buffers), alpha=momentum)) if nesterov else list(buffers)
    torch._foreach_add_(list(params), steps, alpha=-lr)


def scales(
    params: Tensors,
    grads: Tensors,
    buffers: Buffers,
    lr: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
) -> tuple[list[torch.Tensor], list[torch.Tensor] | None]:
    """For each element of the parameters and of the buffers, the sum of the absolute values of its terms."""
    sizes = [[value.double().abs() for value in values] for values in (params, grads, buffers or ())]
    steps, new = _stepped(sizes[0], sizes[1], sizes[2] if buffers else None, momentum, weight_decay, nesterov)
    return [size + lr * step for size, step in zip(sizes[0], steps, strict=True)], new


def cost(params: Tensors, grads: Tensors, buffers: Buffers, *rest: Any) -> Cost:
    """Parameters and buffers read and written, gradients read; eight FLOPs an element."""
    elements = sum(p.numel() for p in params)
    return Cost(bytes=sum(p.nbytes for p in params) * (5 if buffers else 3), flops=8 * elements)


SPEC = Spec(
    schema="sgd(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[]? buffers, float lr, float momentum=0.0,"
    " float weight_decay=0.0, bool nesterov=False) -> ()",
    summary="a step of stochastic gradient descent over a list of parameters, in place",
    outputs={
        "params": Output(terms=6, magnitude=lambda *args: scales(*args)[0]),
        "buffers": Output(terms=4, magnitude=lambda *args: scales(*args)[1]),
    },
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    varying=("lr",),
    cases=(
        Case("plain", {"n": 130}),
        Case("ragged", {"n": 1333}, {"momentum": 0.9, "weight_decay": 0.01}),
        Case("nesterov", {"n": 70}, {"momentum": 0.5, "nesterov": True}),
        Case("many", {"n": 5}, {"count": 14, "momentum": 0.9}),
        Case("one_element", {"n": 1}, {"weight_decay": 0.1}),
        Case("empty", {"n": 0}),
        Case("huge", {"n": 70}, {"momentum": 0.5}, values="huge"),
        Case("strided", {"n": 50}, {"momentum": 0.5}, layout="strided"),
        Case("unaligned", {"n": 64}, {"momentum": 0.5}, layout="unaligned"),
    ),
    sizes=(
        Case("small_network", {"n": 16384}, {"count": 12, "momentum": 0.9}),
        Case("large", {"n": 1 << 24}, {"count": 12, "momentum": 0.9}),
        Case("ragged", {"n": 100003}, {"count": 30}),
    ),
    dtypes=DTYPES,
)
