"""The specification of activation_backward."""

from __future__ import annotations

import math

import torch

from warpwise.gemm.operands import KERNEL_DTYPES
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same_shape, check_tensor, draw
from warpwise.ops.linear.spec import Two, check_activation


def check(grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str) -> None:
    check_tensor("activation_backward", "grad_output", grad_output, FLOATS)
    check_tensor("activation_backward", "preactivation", preactivation, FLOATS)
    check_same_shape("activation_backward", ("grad_output", "preactivation"), (grad_output, preactivation))
    if grad_output.dim() == 0:
        raise ValueError("activation_backward: expected grad_output of shape (..., N), got ()")
    check_activation("activation_backward", activation)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    shape = (case.sizes["m"], case.sizes["n"])
    preactivation = draw(shape, dtype, device, 2 * seed + 1, case.values, power=2)
    return {
        "grad_output": draw(shape, dtype, device, 2 * seed, case.values, power=2),
        "preactivation": preactivation * case.attributes.get("deviation", 1),
    }


def slope(values: torch.Tensor, activation: str) -> torch.Tensor:
    """The derivative of the activation at ``values``, by differentiable functions; relu's at 0 is 0, as in PyTorch."""
    if activation == "relu":
        return (values > 0).to(values.dtype)
    if activation == "gelu":
        return 0.5 * (1 + torch.erf(values * math.sqrt(0.5))) + values * _density(values)
    inner, change = _inner(values)
    return torch.sigmoid(2 * inner) * (1 + 2 * values * torch.sigmoid(-2 * inner) * change)


def curvature(values: torch.Tensor, activation: str) -> torch.Tensor:
    """The second derivative."""
    if activation == "relu":
        return torch.zeros_like(values)
    if activation == "gelu":
        return (2 - values * values) * _density(values)
    inner, change = _inner(values)
    rising = 2 * torch.sigmoid(2 * inner) * torch.sigmoid(-2 * inner)  # the derivative of sigmoid(2 inner) in inner
    bent = 6 * 0.044715 * math.sqrt(2 / math.pi) * values
    return rising * (2 * change + values * bent - 2 * values * change * change * torch.tanh(inner))


def _density(values: torch.Tensor) -> torch.Tensor:
    return torch.exp(-0.5 * values * values) * math.sqrt(0.5 / math.pi)


def _inner(values: torch.Tensor) -> Two:
    """The argument of gelu_tanh's tanh, and its derivative."""
    scale = math.sqrt(2 / math.pi)
    return scale * values * (1 + 0.044715 * values * values), scale * (1 + 3 * 0.044715 * values * values)


def reference(grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str) -> Two:
    gradient = _gradient(grad_output.double(), preactivation.double(), activation)
    return gradient, gradient.flatten(0, -2).sum(0) if gradient.dim() > 1 else gradient.clone()


def magnitude(grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str) -> torch.Tensor:
    """The magnitude of grad_input. A slope of gelu is a sum whose terms have absolute values up to about 1.1."""
    return grad_output.double().abs() * (1 if activation == "relu" else 1.2)


def bias_magnitude(grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str) -> torch.Tensor:
    """The magnitude of grad_bias."""
    size = magnitude(grad_output, preactivation, activation)
    return size.flatten(0, -2).sum(0) if size.dim() > 1 else size


def _gradient(grad_output: torch.Tensor, values: torch.Tensor, activation: str) -> torch.Tensor:
    if activation == "relu":
        return torch.ops.aten.threshold_backward(grad_output, values, 0)
    kind = "tanh" if activation == "gelu_tanh" else "none"
    return torch.ops.aten.gelu_backward(grad_output, values, approximate=kind)


def eager(grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str) -> Two:
    """PyTorch's own backward of the activation, then a sum over rows."""
    gradient = _gradient(grad_output, preactivation, activation).contiguous()
    return gradient, gradient.flatten(0, -2).sum(0) if gradient.dim() > 1 else gradient.clone()


def cost(grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str) -> Cost:
    """Two reads, one write; about ten operations an element for gelu."""
    count = grad_output.numel()
    return Cost(bytes=(3 * count + grad_output.shape[-1]) * grad_output.element_size(), flops=10 * count)


OUTPUTS = {
    "grad_input": Output(like="grad_output", terms=2, magnitude=magnitude),
    "grad_bias": Output(
        shape=lambda grad_output, *rest: grad_output.shape[-1:],
        terms=lambda grad_output, *rest: math.prod(grad_output.shape[:-1]) + 1,
        magnitude=bias_magnitude,
    ),
}
BACKWARD = Spec(
    schema="activation_backward(Tensor grad_output, Tensor preactivation, str activation)"
    " -> (Tensor grad_input, Tensor grad_bias)",
    summary="dy * activation'(h) and its sum over rows: the gradients before a layer's activation and of its bias",
    outputs=OUTPUTS,
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("small", {"m": 4, "n": 5}, {"activation": "gelu_tanh"}),
        Case("gelu", {"m": 33, "n": 61}, {"activation": "gelu"}),
        Case("relu", {"m": 64, "n": 128}, {"activation": "relu"}),
        Case("tall", {"m": 300, "n": 33}, {"activation": "gelu_tanh"}),
        Case("tails", {"m": 40, "n": 70}, {"activation": "gelu", "deviation": 4}),
        Case("tails_tanh", {"m": 40, "n": 70}, {"activation": "gelu_tanh", "deviation": 4}),
        Case("wide", {"m": 3, "n": 520}, {"activation": "gelu"}),
        Case("one_element", {"m": 1, "n": 1}, {"activation": "relu"}),
        Case("empty", {"m": 0, "n": 7}, {"activation": "gelu"}),
        Case("huge", {"m": 9, "n": 20}, {"activation": "gelu"}, values="huge"),
        Case("huge_tanh", {"m": 9, "n": 20}, {"activation": "gelu_tanh"}, values="huge"),
        Case("strided", {"m": 30, "n": 28}, {"activation": "gelu_tanh"}, layout="strided"),
        Case("unaligned", {"m": 32, "n": 40}, {"activation": "gelu"}, layout="unaligned"),
    ),
    sizes=(
        Case("hidden", {"m": 8192, "n": 4096}, {"activation": "gelu"}),
        Case("up", {"m": 4096, "n": 14336}, {"activation": "gelu_tanh"}),
        Case("ragged", {"m": 4095, "n": 4095}, {"activation": "relu"}),
    ),
    dtypes=KERNEL_DTYPES,
)
