"""The specification of the loss of linear_cross_entropy together with its gradients."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.gemm.precision import without_tf32
from warpwise.operation import FLOATS, Case, Cost, Output, Spec
from warpwise.ops.cross_entropy.spec import mean_loss
from warpwise.ops.linear_cross_entropy import spec as forward
from warpwise.ops.linear_cross_entropy.spec import DTYPES, Optional

Results = tuple[torch.Tensor, Optional, torch.Tensor, Optional]


def _computed(
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
    needs_input: bool,
) -> Results:
    logits = torch.nn.functional.linear(input, linear_weight, linear_bias)
    loss = mean_loss("linear_cross_entropy_gradients", logits, target, ignore_index)
    p = torch.softmax(logits, 1)
    kept = target != ignore_index
    d = torch.where(kept.unsqueeze(1), (p - forward.one_hot(target, p)) / kept.sum(), 0)
    bias = None if linear_bias is None else d.sum(0)
    return loss, d @ linear_weight if needs_input else None, (d.t() @ input).contiguous(), bias


def check(*args: Any) -> None:
    forward.check(*args[:5])


def eager(*args: Any) -> Results:
    """PyTorch's operations, never in TF32."""
    return without_tf32(_computed, *args)


def reference(*args: Any) -> Results:
    return _computed(*(value.double() if _floating(value) else value for value in args))


def _floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in FLOATS


def _magnitudes(*args: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients with absolute values in place of all factors and differences, and the error of the softmax."""
    input, linear_weight, target, _, ignore_index, _ = args
    p = forward.probability_magnitude(*args[:5])
    kept = target != ignore_index
    d = torch.where(kept.unsqueeze(1), (p + forward.one_hot(target, p)) / kept.sum(), 0)
    return d @ linear_weight.double().abs(), d.t() @ input.double().abs(), d.sum(0)


def terms(input: torch.Tensor, linear_weight: torch.Tensor, *rest: Any) -> int:
    return sum(input.shape) + len(linear_weight) + 6


def cost(input: torch.Tensor, linear_weight: torch.Tensor, target: torch.Tensor, *rest: Any) -> Cost:
    """The operands are read and the gradients written; two FLOPs for each product of the three."""
    moved = 2 * input.nbytes + 2 * linear_weight.nbytes + target.nbytes
    return Cost(bytes=moved, flops=6 * input.numel() * len(linear_weight))


SPEC = Spec(
    schema="linear_cross_entropy_gradients(Tensor input, Tensor linear_weight, Tensor target,"
    " Tensor? linear_bias=None, int ignore_index=-100, bool needs_input=True)"
    " -> (Tensor loss, Tensor grad_input, Tensor grad_linear_weight, Tensor grad_linear_bias)",
    summary="the mean cross-entropy of x W^T + b against class indices (N,), and its gradients",
    inputs=forward.inputs,
    check=check,
    outputs={
        "loss": Output(shape=lambda *args: (), terms=terms, magnitude=lambda *args: forward.magnitude(*args[:5])),
        "grad_input": Output(
            like="input", present=lambda *args: args[5], terms=terms, magnitude=lambda *args: _magnitudes(*args)[0]
        ),
        "grad_linear_weight": Output(like="linear_weight", terms=terms, magnitude=lambda *args: _magnitudes(*args)[1]),
        "grad_linear_bias": Output(
            shape=lambda x, w, *rest: (len(w),),
            present=lambda *args: args[3] is not None,
            terms=terms,
            magnitude=lambda *args: _magnitudes(*args)[2],
        ),
    },
    reference=reference,
    eager=eager,
    cost=cost,
    autocast="float32",
    vendor="cuBLAS",
    cases=(*forward.CASES, Case("loss_of_weights", {"n": 70, "k": 300, "classes": 16}, {"needs_input": False})),
    sizes=forward.SPEC.sizes[:2],
    dtypes=DTYPES,
)
