"""The specifications of the mean cross-entropy and of its backward."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, backward_spec, check_tensor, draw

DTYPES = (torch.float32,)
Two = tuple[torch.Tensor, torch.Tensor]


def check(input: torch.Tensor, target: torch.Tensor, ignore_index: int) -> None:
    check_tensor("cross_entropy", "input", input, FLOATS, dims=(2,))
    check_tensor("cross_entropy", "target", target, (torch.int64,), dims=(1,))
    if target.shape[0] != input.shape[0]:
        expected, got = input.shape[0], target.shape[0]
        raise ValueError(f"cross_entropy: expected a target for each of the {expected} rows of input, got {got}")
    if not input.shape[1]:
        raise ValueError(f"cross_entropy: expected input with at least one class, got shape {tuple(input.shape)}")
    if target.device != input.device:
        raise ValueError(f"cross_entropy: expected target on input's device {input.device}, got {target.device}")


def check_backward(
    grad_loss: torch.Tensor, input: torch.Tensor, target: torch.Tensor, ignore_index: int, count: torch.Tensor
) -> None:
    check_tensor("cross_entropy_backward", "grad_loss", grad_loss, FLOATS, dims=(0,))
    check_tensor("cross_entropy_backward", "count", count, (torch.int64,), dims=(0,))
    check(input, target, ignore_index)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``input`` (n, classes) and ``target``; with the attribute ``ignored`` the first few targets are ignored."""
    n, classes = case.sizes["n"], case.sizes["classes"]
    if device.type == "meta":
        target = torch.empty(n, dtype=torch.int64, device=device)
    else:
        generator = torch.Generator(device).manual_seed(seed + 1)
        target = torch.randint(0, classes, (n,), generator=generator, device=device)
    if case.attributes.get("ignored"):
        target[: 2 + seed % 5] = -100
    return {"input": draw((n, classes), dtype, device, seed, case.values, 2), "target": target}


def _counted(target: torch.Tensor, ignore_index: int) -> torch.Tensor:
    return (target != ignore_index).sum()


def reference(input: torch.Tensor, target: torch.Tensor, ignore_index: int) -> Two:
    loss = functional.cross_entropy(input.double(), target, ignore_index=ignore_index)
    return loss, _counted(target, ignore_index)


def magnitude(input: torch.Tensor, target: torch.Tensor, ignore_index: int) -> torch.Tensor:
    """Twice the mean of max |x|, plus log C: a row's loss is m + log(sum(e^(x - m))) - x[target], where m = max x."""
    x = input.double()
    if not x.numel():
        return x.new_zeros(())
    return 2 * x.abs().amax(1).mean() + math.log(x.shape[1]) + 1


def magnitude_backward(
    grad_loss: torch.Tensor, input: torch.Tensor, target: torch.Tensor, ignore_index: int, count: torch.Tensor
) -> torch.Tensor:
    """|g| / count (p (1 + max - x) + one_hot)."""
    x = input.double()
    if not x.numel():
        return x
    powers = torch.softmax(x, 1) * (1 + x.amax(1, keepdim=True) - x)
    return (powers + _one_hot(input, target)) * grad_loss.double().abs() / count


def _one_hot(input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """(N, C), in the dtype of ``input``; rows whose target is outside [0, C) are zero."""
    return (torch.arange(input.shape[1], device=input.device) == target.unsqueeze(1)).to(input.dtype)


def mean_loss(op: str, logits: torch.Tensor, target: torch.Tensor, ignore_index: int) -> torch.Tensor:
    """PyTorch's mean cross-entropy. Raises ``IndexError`` for a target outside of [0, C), on a CPU."""
    try:
        return functional.cross_entropy(logits, target, ignore_index=ignore_index)
    except IndexError as error:
        classes = logits.shape[1]
        wrong = target[((target < 0) | (target >= classes)) & (target != ignore_index)]
        expected = f"expected target in [0, {classes}), or {ignore_index} for a row to ignore"
        raise IndexError(f"{op}: {expected}, got {wrong[0].item()}") from error


def eager(input: torch.Tensor, target: torch.Tensor, ignore_index: int) -> Two:
    return mean_loss("cross_entropy", input, target, ignore_index), _counted(target, ignore_index)


def eager_backward(
    grad_loss: torch.Tensor, input: torch.Tensor, target: torch.Tensor, ignore_index: int, count: torch.Tensor
) -> torch.Tensor:
    scale = torch.where(target != ignore_index, grad_loss / count, 0)  # count is 0 if all rows are ignored
    return (torch.softmax(input, 1) - _one_hot(input, target)) * scale.unsqueeze(1)


def cost(input: torch.Tensor, target: torch.Tensor, ignore_index: int) -> Cost:
    """One read; for each element a comparison, a difference, an exponential and a sum."""
    return Cost(bytes=input.nbytes + target.nbytes, flops=4 * input.numel())


def cost_backward(
    grad_loss: torch.Tensor, input: torch.Tensor, target: torch.Tensor, ignore_index: int, count: torch.Tensor
) -> Cost:
    """One read, one write."""
    return Cost(bytes=2 * input.nbytes + target.nbytes, flops=6 * input.numel())


SPEC = Spec(
    schema="cross_entropy(Tensor input, Tensor target, int ignore_index=-100) -> (Tensor loss, Tensor count)",
    summary="the mean cross-entropy of logits (N, C) against class indices (N,)",
    inputs=inputs,
    check=check,
    outputs={
        "loss": Output(shape=lambda *args: (), terms=lambda x, *rest: x.shape[0] + x.shape[1] + 4, magnitude=magnitude),
        "count": Output(shape=lambda *args: (), dtype=torch.int64, saved=True),
    },
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("digits", {"n": 37, "classes": 10}),
        Case("ragged", {"n": 300, "classes": 77}),
        Case("long_rows", {"n": 3, "classes": 1030}),
        Case("two_classes", {"n": 5, "classes": 2}),
        Case("ignored", {"n": 20, "classes": 10}, {"ignored": True}),
        Case("one_element", {"n": 1, "classes": 1}),
        Case("empty", {"n": 0, "classes": 10}),
        Case("huge", {"n": 9, "classes": 13}, values="huge"),
        Case("strided", {"n": 6, "classes": 33}, layout="strided"),
        Case("unaligned", {"n": 6, "classes": 40}, layout="unaligned"),
    ),
    autocast="float32",
    sizes=(
        # A few ignored rows: otherwise the count is the same for each seed.
        Case("step", {"n": 128, "classes": 10}, {"ignored": True}),
        Case("batch", {"n": 2048, "classes": 10}, {"ignored": True}),
        Case("vocabulary", {"n": 8192, "classes": 128256}, {"ignored": True}),
        Case("ragged", {"n": 1000, "classes": 100}, {"ignored": True}),
    ),
    dtypes=DTYPES,
)
BACKWARD = backward_spec(
    SPEC,
    "cross_entropy_backward(Tensor grad_loss, Tensor input, Tensor target, int ignore_index, Tensor count)"
    " -> (Tensor grad_input)",
    outputs={
        "grad_input": Output(like="input", terms=lambda g, x, *rest: x.shape[1] + 4, magnitude=magnitude_backward)
    },
    check=check_backward,
    eager=eager_backward,
    cost=cost_backward,
    summary="(softmax(x) - one_hot(t)) * grad_loss / count: the gradient of cross_entropy",
)
