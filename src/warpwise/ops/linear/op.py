"""The public functions linear and activation_backward."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, overload

import torch

from warpwise.gemm import gradients
from warpwise.gemm.operands import KERNEL_DTYPES
from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.linear.backward import rungs as backward
from warpwise.ops.linear.backward.spec import BACKWARD, curvature, slope
from warpwise.ops.linear.forward import rungs as forward
from warpwise.ops.linear.spec import SPEC, Layer
from warpwise.ops.linear.tables import TABLES
from warpwise.ops.linear_backward.op import LINEAR_BACKWARD, linear_backward
from warpwise.ops.matmul.op import MATMUL, matmul

OptionalTensor = torch.Tensor | None


def _second_backward(saved: Saved, grad: OptionalTensor, grad_bias: OptionalTensor) -> dict[str, OptionalTensor]:
    """dh = dy a'(h), db = the sum of dh over rows; with incoming v and u the gradient of dh is v + u in each row."""
    pull = grad_bias if grad is None else grad if grad_bias is None else grad + grad_bias
    if pull is None:
        return {}
    return {
        "grad_output": pull * slope(saved.preactivation, saved.activation),
        "preactivation": pull * saved.grad_output * curvature(saved.preactivation, saved.activation),
    }


_SECOND = Gradient(_second_backward, saves=("grad_output", "preactivation", "activation"), materialize=False)
ACTIVATION_BACKWARD = register(Op(replace(BACKWARD, gradient=_SECOND), backward.RUNGS, backward.default))
_activation_backward = ACTIVATION_BACKWARD.call


def _saves(*args: Any) -> tuple[str, ...]:
    """Save the operands and, for an activation, the tensors that determine its slope: the output of relu, the
    preactivation, or the tensors from which the preactivation is recomputed."""
    layer = Layer(*args)
    if layer.activation is None:
        return ("input", "weight") if layer.row_scale is None else ("input", "weight", "row_scale")
    operands = "input", "weight", "row_scale", "activation"
    if layer.return_preactivation:
        return *operands, "preactivation"
    return *operands, "output" if layer.activation == "relu" and layer.residual is None else "bias"


def _at_preactivation(
    saved: Saved, row_scale: OptionalTensor, grad: OptionalTensor, grad_kept: OptionalTensor
) -> tuple[OptionalTensor, OptionalTensor]:
    """The gradient of the preactivation and, where the kernel computes it too, its sum over rows."""
    activation = getattr(saved, "activation", None)
    if activation is None or grad is None:
        return grad if grad_kept is None else grad_kept if grad is None else grad + grad_kept, None
    known = getattr(saved, "preactivation", None)
    if known is None:
        known = getattr(saved, "output", None)  # relu's, whose sign is that of the preactivation
    if known is None:
        known = _linear(saved.input, saved.weight, saved.bias, None, None, row_scale, False)[0]
    at, sums = _activation_backward(grad, known, activation)
    return (at, sums) if grad_kept is None else (at + grad_kept, None)


def _backward(saved: Saved, grad: OptionalTensor, grad_kept: OptionalTensor) -> dict[str, OptionalTensor]:
    """Let g be the gradient of the preactivation: dx = s g W, dW = (s g)^T x, db = the sum of g over rows, and
    ds = (g W) . x in each row.
    """
    input, weight, row_scale = saved.input, saved.weight, getattr(saved, "row_scale", None)
    found: dict[str, OptionalTensor] = {"residual": grad}
    output = getattr(saved, "output", None)  # of relu, whose derivative the kernel of all gradients applies
    if grad is not None and grad_kept is None and output is not None and (made := _in_one_launch(saved, grad, output)):
        return found | made
    at, sums = _at_preactivation(saved, row_scale, grad, grad_kept)
    if at is None:
        return found
    if made := _in_one_launch(saved, at, None):
        return found | made | ({} if sums is None else {"bias": sums})
    m, (n, k) = math.prod(input.shape[:-1]), weight.shape
    x, g = input.reshape(m, k), at.reshape(m, n)
    scale = None if row_scale is None else row_scale.reshape(m, 1)
    if saved.wants("input", "row_scale"):
        product = matmul(g, weight)
        found["input"] = (product if scale is None else product * scale).view(input.shape)
        if row_scale is not None and saved.wants("row_scale"):
            found["row_scale"] = (product * x).sum(1).view(row_scale.shape)
    if saved.wants("weight"):
        found["weight"] = matmul((g if scale is None else g * scale).t(), x)
    if saved.wants("bias"):
        found["bias"] = g.sum(0) if sums is None else sums
    return found


def _in_one_launch(saved: Saved, grad: torch.Tensor, relu_output: OptionalTensor) -> dict[str, OptionalTensor] | None:
    """The gradients by one launch from that of the preactivation, or of relu's output; None for other layers."""
    if not grad.is_cuda or getattr(saved, "row_scale", None) is not None or not saved.wants("weight"):
        return None
    (n, k), needs_input = saved.weight.shape, saved.wants("input")
    x, g = saved.input.reshape(-1, k), grad.reshape(-1, n)
    output = None if relu_output is None else relu_output.reshape(-1, n)
    if LINEAR_BACKWARD.default(g, x, saved.weight, output, needs_input) is None:
        return None
    of_input, of_weight, of_bias = linear_backward(g, x, saved.weight, output, needs_input)
    shaped = None if of_input is None else of_input.view(saved.input.shape)
    return {"input": shaped, "weight": of_weight, "bias": of_bias}


def _eager_records(
    input: torch.Tensor, weight: torch.Tensor, bias: OptionalTensor, activation: str | None, *rest: Any
) -> bool | Callable[[], bool]:
    """True if PyTorch's backward is as fast. An activation has a backward kernel in ``KERNEL_DTYPES``."""
    if activation is not None:
        return input.dtype not in KERNEL_DTYPES
    rows = input.reshape(math.prod(input.shape[:-1]), input.shape[-1])
    grad = input.new_empty((rows.shape[0], weight.shape[0]))
    if input.is_cuda and LINEAR_BACKWARD.default(grad, rows, weight, None, True) is not None:
        return False
    return gradients.eager_multiplies(MATMUL, ((grad, weight), (grad.t(), rows)))


_GRADIENT = Gradient(_backward, saves=_saves, materialize=False, eager_records=_eager_records)
LINEAR = register(Op(replace(SPEC, gradient=_GRADIENT), forward.RUNGS, forward.default, TABLES))
_linear = LINEAR.call


@overload
def linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    residual: torch.Tensor | None = None,
    row_scale: torch.Tensor | None = None,
    return_preactivation: Literal[False] = False,
    *,
    rung: str | None = None,
) -> torch.Tensor: ...
@overload
def linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    residual: torch.Tensor | None = None,
    row_scale: torch.Tensor | None = None,
    return_preactivation: bool = False,
    *,
    rung: str | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]: ...
def linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    residual: torch.Tensor | None = None,
    row_scale: torch.Tensor | None = None,
    return_preactivation: bool = False,
    *,
    rung: str | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``activation(row_scale * (input @ weight.T) + bias) + residual``, in one kernel.

    ``input`` is (..., K), ``weight`` (N, K), in any layout, and the result (..., N). ``bias`` (N,), ``residual``
    (..., N) and ``row_scale`` (...) may be None. ``activation`` is None, "relu", "gelu" (with the error function) or
    "gelu_tanh". All tensors have one dtype, float16, bfloat16, float32 or float64. The sums and the epilogue are
    computed in float32, and the result is rounded once; PyTorch computes float64, in float64. float32 is never rounded
    to TF32. With ``return_preactivation`` the argument of the activation is returned too. An empty sum, K = 0,
    is 0. On a GPU, PyTorch computes the calls for which it was measured or predicted to be faster, such as those with
    some of the epilogues that cuBLASLt fuses. ``warpwise tune linear`` measures on another GPU.

    Differentiable any number of times. For the backward of gelu the kernel also writes the preactivation; the backward
    of relu needs only the output, that of a layer without activation only the operands. Raises ``TypeError`` or
    ``ValueError`` that names the argument. ``rung`` names one rung, ``name@config`` one of its configurations.
    """
    keep = return_preactivation
    if activation is not None and (activation != "relu" or residual is not None) and torch.is_grad_enabled():
        for value in (input, weight, bias, row_scale):
            keep = keep or getattr(value, "requires_grad", False)
    output, preactivation = _linear(input, weight, bias, activation, residual, row_scale, keep, rung)
    return (output, preactivation) if return_preactivation else output


def activation_backward(
    grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str, *, rung: str | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient of an activation's argument, ``grad_output * activation'(preactivation)``, and its sum over rows.

    Both arguments are (..., N), of one dtype, float16, bfloat16, float32 or float64; the results (..., N) and (N,) are
    computed in float32. ``activation`` is "relu", "gelu" or "gelu_tanh". For relu only the sign of ``preactivation`` is
    read, so it may be the output of relu. Autograd calls this function; it is public for backwards written by hand.
    Differentiable. Raises ``TypeError`` or ``ValueError`` that names the argument. ``rung`` names one rung.
    """
    result: tuple[torch.Tensor, torch.Tensor] = _activation_backward(grad_output, preactivation, activation, rung)
    return result
