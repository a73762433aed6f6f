"""The specifications of a linear layer followed by the mean cross-entropy, and of its backward."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional

from warpwise.gemm.precision import without_tf32
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, backward_spec, check_same, check_tensor, draw
from warpwise.ops.cross_entropy.spec import mean_loss

DTYPES = (torch.float32,)
Optional = torch.Tensor | None
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Gradients = tuple[Optional, Optional, Optional]
NAME = "linear_cross_entropy"


def check(
    input: torch.Tensor, linear_weight: torch.Tensor, target: torch.Tensor, linear_bias: Optional, ignore_index: int
) -> None:
    check_tensor(NAME, "input", input, FLOATS, dims=(2,))
    check_tensor(NAME, "linear_weight", linear_weight, FLOATS, dims=(2,))
    check_tensor(NAME, "target", target, (torch.int64,), dims=(1,))
    check_same(NAME, ("input", "linear_weight"), input, linear_weight)
    classes, features = linear_weight.shape
    if features != input.shape[1]:
        raise ValueError(
            f"{NAME}: expected linear_weight (C, {input.shape[1]}) for input {tuple(input.shape)}, "
            f"got {tuple(linear_weight.shape)}"
        )
    if not classes:
        raise ValueError(f"{NAME}: expected linear_weight of at least one class, got {tuple(linear_weight.shape)}")
    if target.shape[0] != input.shape[0]:
        raise ValueError(f"{NAME}: expected {input.shape[0]} targets, one for each row of input, got {len(target)}")
    if target.device != input.device:
        raise ValueError(f"{NAME}: expected target on input's device {input.device}, got {target.device}")
    if linear_bias is not None:
        check_tensor(NAME, "linear_bias", linear_bias, FLOATS, dims=(1,))
        check_same(NAME, ("input", "linear_bias"), input, linear_bias)
        if len(linear_bias) != classes:
            raise ValueError(f"{NAME}: expected linear_bias of shape ({classes},), got {tuple(linear_bias.shape)}")


def check_backward(
    grad_loss: Optional,
    grad_probabilities: Optional,
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
    probabilities: torch.Tensor,
    count: torch.Tensor,
    needs_input: bool,
) -> None:
    check(input, linear_weight, target, linear_bias, ignore_index)
    expected = (len(input), len(linear_weight))
    for name, value, shape in (
        ("grad_loss", grad_loss, ()),
        ("grad_probabilities", grad_probabilities, expected),
        ("probabilities", probabilities, expected),
    ):
        if value is not None:
            check_tensor(f"{NAME}_backward", name, value, FLOATS)
            if tuple(value.shape) != shape:
                raise ValueError(f"{NAME}_backward: expected {name} of shape {shape}, got {tuple(value.shape)}")
    check_tensor(f"{NAME}_backward", "count", count, (torch.int64,), dims=(0,))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``n`` rows of ``k`` features; no bias if the attribute ``biased`` is false; ``ignored``: some ignored targets."""
    n, k, classes = (case.sizes[name] for name in ("n", "k", "classes"))
    if device.type == "meta":
        target = torch.empty(n, dtype=torch.int64, device=device)
    else:
        generator = torch.Generator(device).manual_seed(seed + 1)
        target = torch.randint(0, classes, (n,), generator=generator, device=device)
    if case.attributes.get("ignored"):
        target[: 2 + seed % 5] = -100
    return {
        "input": draw((n, k), dtype, device, 3 * seed, case.values, 3),
        "linear_weight": draw((classes, k), dtype, device, 3 * seed + 1, case.values, 3) / math.sqrt(max(1, k)),
        "target": target,
        "linear_bias": draw((classes,), dtype, device, 3 * seed + 2) if case.attributes.get("biased", True) else None,
    }


def _computed(
    input: torch.Tensor, linear_weight: torch.Tensor, target: torch.Tensor, linear_bias: Optional, ignore_index: int
) -> Three:
    logits = functional.linear(input, linear_weight, linear_bias)
    loss = mean_loss(NAME, logits, target, ignore_index)
    return loss, torch.softmax(logits, 1).contiguous(), (target != ignore_index).sum()


def reference(
    input: torch.Tensor, linear_weight: torch.Tensor, target: torch.Tensor, linear_bias: Optional, ignore_index: int
) -> Three:
    bias = None if linear_bias is None else linear_bias.double()
    return _computed(input.double(), linear_weight.double(), target, bias, ignore_index)


def eager(*args: Any) -> Three:
    """PyTorch's linear layer and loss, never in TF32."""
    return without_tf32(_computed, *args)


def _logit_magnitude(input: torch.Tensor, linear_weight: torch.Tensor, bias: Optional) -> torch.Tensor:
    """max over classes of sum |x w| + |b|, by which the rounding of a row's logits is bounded, (N, 1)."""
    absolute = None if bias is None else bias.double().abs()
    return functional.linear(input.double().abs(), linear_weight.double().abs(), absolute).amax(1, keepdim=True)


def magnitude(
    input: torch.Tensor, linear_weight: torch.Tensor, target: torch.Tensor, linear_bias: Optional, ignore_index: int
) -> torch.Tensor:
    """The magnitude of the loss, which is log(sum(e^(x - max))) - (x[target] - max) for a row."""
    if not len(input):
        return input.double().sum()
    return 2 * _logit_magnitude(input, linear_weight, linear_bias).mean() + math.log(len(linear_weight)) + 1


def probability_magnitude(*args: Any) -> torch.Tensor:
    """p (1 + twice the magnitude of a logit): an error e of max - x changes p by e p."""
    input, linear_weight, _, linear_bias, _ = args
    return reference(*args)[1] * (1 + 2 * _logit_magnitude(input, linear_weight, linear_bias))


def one_hot(target: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """(N, C), in the dtype of ``like``; rows whose target is outside [0, C) are zero."""
    return (torch.arange(like.shape[1], device=like.device) == target.unsqueeze(1)).to(like.dtype)


def eager_backward(
    grad_loss: Optional,
    grad_probabilities: Optional,
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
    probabilities: torch.Tensor,
    count: torch.Tensor,
    needs_input: bool,
) -> Gradients:
    """The gradients by differentiable operations, never in TF32; the softmax is computed again for autograd."""
    p = torch.softmax(without_tf32(functional.linear, input, linear_weight, linear_bias), 1)
    grad = torch.zeros_like(p)
    if grad_loss is not None:
        scale = torch.where(target != ignore_index, grad_loss / count, 0).unsqueeze(1)
        grad = (p - one_hot(target, p)) * scale
    if grad_probabilities is not None:
        grad = grad + p * (grad_probabilities - (grad_probabilities * p).sum(1, keepdim=True))
    grad_input = without_tf32(torch.matmul, grad, linear_weight) if needs_input else None
    grad_weight = without_tf32(torch.matmul, grad.t(), input)
    return grad_input, grad_weight.contiguous(), None if linear_bias is None else grad.sum(0)


def _magnitudes(
    grad_loss: torch.Tensor, _: Any, input: torch.Tensor, linear_weight: torch.Tensor, target: torch.Tensor, *rest: Any
) -> Three:
    """The gradients with absolute values in place of all factors and differences."""
    _, ignore_index, probabilities, count, _ = rest
    p = probabilities.double()
    scale = torch.where(target != ignore_index, grad_loss.double().abs() / count, 0).unsqueeze(1)
    grad = (p + one_hot(target, p)) * scale
    return grad @ linear_weight.double().abs(), grad.t() @ input.double().abs(), grad.sum(0)


def cost(input: torch.Tensor, linear_weight: torch.Tensor, target: torch.Tensor, *rest: Any) -> Cost:
    """The operands are read and the probabilities written; two FLOPs for each product."""
    products = input.numel() * len(linear_weight)
    probabilities = len(input) * len(linear_weight) * input.element_size()
    return Cost(bytes=input.nbytes + linear_weight.nbytes + target.nbytes + probabilities, flops=2 * products)


def cost_backward(*args: Any) -> Cost:
    """Operands and probabilities are read and the gradients written; two FLOPs for each product of either."""
    input, linear_weight, target, probabilities, needs_input = args[2], args[3], args[4], args[7], args[9]
    moved = (1 + needs_input) * input.nbytes + 2 * linear_weight.nbytes + target.nbytes + probabilities.nbytes
    return Cost(bytes=moved, flops=2 * (1 + needs_input) * input.numel() * len(linear_weight))


def _case(name: str, sizes: tuple[int, int, int], attributes: dict[str, Any] | None = None, **more: Any) -> Case:
    return Case(name, dict(zip(("n", "k", "classes"), sizes, strict=True)), attributes or {}, **more)


CASES = (
    _case("digits", (37, 20, 10)),
    _case("ragged", (13, 133, 19)),
    _case("several_row_chunks", (300, 12, 3)),
    _case("many_classes", (5, 40, 70)),
    _case("no_bias", (9, 33, 5), {"biased": False}),
    _case("ignored", (20, 8, 6), {"ignored": True}),
    _case("one_element", (1, 1, 1)),
    _case("empty", (0, 5, 3)),
    _case("huge", (9, 20, 7), values="huge"),
    _case("strided", (6, 16, 5), layout="strided"),
    _case("unaligned", (6, 16, 5), layout="unaligned"),
)
SPEC = Spec(
    schema="linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias=None,"
    " int ignore_index=-100) -> (Tensor loss, Tensor probabilities, Tensor count)",
    summary="the mean cross-entropy of x W^T + b against class indices (N,)",
    inputs=inputs,
    check=check,
    outputs={
        "loss": Output(
            shape=lambda *args: (),
            terms=lambda x, w, *rest: x.shape[0] + x.shape[1] + w.shape[0] + 4,
            magnitude=magnitude,
        ),
        "probabilities": Output(
            shape=lambda x, w, *rest: (x.shape[0], w.shape[0]),
            saved=True,
            terms=lambda x, w, *rest: x.shape[1] + w.shape[0] + 4,
            magnitude=probability_magnitude,
        ),
        "count": Output(shape=lambda *args: (), dtype=torch.int64, saved=True),
    },
    reference=reference,
    eager=eager,
    cost=cost,
    autocast="float32",
    vendor="cuBLAS",
    cases=CASES,
    sizes=(
        # A few ignored rows: otherwise the count is the same for each seed.
        _case("step", (128, 128, 10), {"ignored": True}),
        _case("batch", (2048, 128, 10), {"ignored": True}),
        _case("wide", (8192, 1024, 100), {"ignored": True}),
        _case("ragged", (1000, 333, 37), {"ignored": True}),
    ),
    dtypes=DTYPES,
)


def _backward() -> Spec:
    made = backward_spec(
        SPEC,
        "linear_cross_entropy_backward(Tensor? grad_loss, Tensor? grad_probabilities, Tensor input,"
        " Tensor linear_weight, Tensor target, Tensor? linear_bias, int ignore_index, Tensor probabilities,"
        " Tensor count, bool needs_input=True)"
        " -> (Tensor grad_input, Tensor grad_linear_weight, Tensor grad_linear_bias)",
        outputs={
            "grad_input": Output(
                like="input",
                present=lambda *args: args[9],
                terms=lambda *args: len(args[3]) + 6,
                magnitude=lambda *args: _magnitudes(*args)[0],
            ),
            "grad_linear_weight": Output(
                like="linear_weight",
                terms=lambda *args: len(args[2]) + 6,
                magnitude=lambda *args: _magnitudes(*args)[1],
            ),
            "grad_linear_bias": Output(
                shape=lambda *args: (len(args[3]),),
                dtype="linear_weight",
                present=lambda *args: args[5] is not None,
                terms=lambda *args: len(args[2]) + 6,
                magnitude=lambda *args: _magnitudes(*args)[2],
            ),
        },
        check=check_backward,
        cost=cost_backward,
        dtype_from="input",
        cases=(*CASES, _case("weights_only", (19, 16, 5), {"needs_input": False})),
    )

    def without_derivative_of_saved(*args: Any) -> dict[str, Any]:
        """The inputs of a training step, in which no derivative flows through the probabilities."""
        return {**made.inputs(*args), "grad_probabilities": None}

    return replace(made, inputs=without_derivative_of_saved, eager=eager_backward)


BACKWARD = _backward()
