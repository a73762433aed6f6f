"""The public functions linear and activation_backward."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import torch

from warpwise.ops._public import public
from warpwise.ops.linear.backward_spec import BACKWARD, curvature, slope
from warpwise.ops.linear.rungs import BACKWARD_RUNGS, RUNGS, default, default_backward
from warpwise.ops.linear.spec import SPEC, by_pytorch
from warpwise.ops.linear.tables import TABLES
from warpwise.ops.matmul.op import matmul
from warpwise.registry import Op, register

LINEAR = register(Op(SPEC, RUNGS, default, TABLES))
ACTIVATION_BACKWARD = register(Op(BACKWARD, BACKWARD_RUNGS, default_backward))

Gradient = torch.Tensor | None


def _save_for_double(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.activation = inputs
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def _double_backward(ctx: Any, grad: Gradient, grad_bias: Gradient) -> tuple[Gradient, Gradient, None]:
    """Of dh = dy a'(h) and db = the sum of dh over rows, along (v, u): v + u in each row is what dh is pulled by."""
    grad_output, preactivation = ctx.saved_tensors
    pull = grad_bias if grad is None else grad if grad_bias is None else grad + grad_bias
    if pull is None:
        return None, None, None
    to_gradient = pull * slope(preactivation, ctx.activation)
    return to_gradient, pull * grad_output * curvature(preactivation, ctx.activation), None


_activation_backward = public(
    ACTIVATION_BACKWARD, "(Tensor grad_output, Tensor preactivation, str activation) -> (Tensor, Tensor)",
    _double_backward, _save_for_double,
)  # fmt: skip


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Factors; and for the activation its own output if that tells the slope, as relu's does, else what it was applied to."""
    input, weight, bias, activation, residual, row_scale, kept = inputs
    if activation is row_scale is None and not kept:
        ctx.save_for_backward(input, weight)  # no more, as each costs the host
        return
    ctx.finished = activation, kept
    told = output[1] if kept else output[0] if activation == "relu" and residual is None else None
    ctx.save_for_backward(input, weight, bias, row_scale, told if activation else None)
    ctx.set_materialize_grads(False)


def _at_preactivation(
    activation: str | None, saved: tuple[Any, ...], grad: Gradient, grad_kept: Gradient
) -> tuple[Gradient, Gradient]:
    """The gradient before the activation and, where it came along, its sum over rows."""
    input, weight, bias, row_scale, told = saved
    if activation is None or grad is None:
        return grad if grad_kept is None else grad_kept if grad is None else grad + grad_kept, None
    if told is None:
        told = _linear(input, weight, bias, None, None, row_scale, False)[0]
    before, sums = _activation_backward(grad, told, activation)
    return (before, sums) if grad_kept is None else (before + grad_kept, None)


def _backward(ctx: Any, grad: Gradient, grad_kept: Gradient) -> tuple[Any, ...]:
    """With g the gradient before the activation: dx = s g W, dW = (s g)^T x, db = the sum of g, ds = (g W) . x row by row."""
    saved = (*ctx.saved_tensors, None, None, None)[:5]  # asked once: checkpoints hand each tensor out a single time
    input, weight, _, row_scale, _ = saved
    wants_input, wants_weight, wants_bias, _, wants_residual, wants_scale, _ = ctx.needs_input_grad[:7]
    activation, kept = getattr(ctx, "finished", (None, False))
    before, sums = _at_preactivation(activation, saved, grad, grad_kept if kept else None)
    if before is None:
        return (None,) * 7
    m, (n, k) = math.prod(input.shape[:-1]), weight.shape
    x, g = input.reshape(m, k), before.reshape(m, n)
    s = None if row_scale is None else row_scale.reshape(m, 1)
    to_input = to_weight = to_bias = to_scale = None
    if wants_input or wants_scale:
        product = matmul(g, weight)
        to_input = (product if s is None else product * s).view(input.shape) if wants_input else None
        to_scale = (product * x).sum(1).view(row_scale.shape) if wants_scale else None
    if wants_weight:
        to_weight = matmul((g if s is None else g * s).t(), x)
    if wants_bias:
        to_bias = g.sum(0) if sums is None else sums
    return to_input, to_weight, to_bias, None, grad if wants_residual else None, to_scale, None


_linear = public(
    LINEAR, "(Tensor input, Tensor weight, Tensor? bias, str? activation, Tensor? residual, Tensor? row_scale, bool keep)"
    " -> (Tensor, Tensor)", _backward, _save, autocast="low_precision", eager_records=True,
    eager=by_pytorch,
)  # fmt: skip


@overload
def linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str | None = None,
    residual: torch.Tensor | None = None, row_scale: torch.Tensor | None = None,
    return_preactivation: Literal[False] = False, *, rung: str | None = None,
) -> torch.Tensor: ...  # fmt: skip
@overload
def linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str | None = None,
    residual: torch.Tensor | None = None, row_scale: torch.Tensor | None = None,
    return_preactivation: bool = False, *, rung: str | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]: ...  # fmt: skip
def linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str | None = None,
    residual: torch.Tensor | None = None, row_scale: torch.Tensor | None = None,
    return_preactivation: bool = False, *, rung: str | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """``activation(row_scale * (input @ weight.T) + bias) + residual``, in one kernel.

    input (..., K) and weight (N, K), in any layout, give (..., N); bias (N,), residual (..., N) and row_scale (...) may
    be None. ``activation`` is None, "relu", "gelu" (by the error function) or "gelu_tanh". All are of one dtype, float16,
    bfloat16, float32 or float64; sums and what follows them are float32 and rounded once (float64 for float64, which
    PyTorch computes), and float32 is never rounded to TF32. ``return_preactivation`` returns what the activation was
    applied to as well. An empty sum, K = 0, is 0. On a GPU PyTorch computes where it was measured to be
    faster: small products, and much of what cuBLASLt does in one kernel. ``warpwise tune linear`` measures for a GPU at hand.

    Differentiable as often as one likes. For the backward of gelu what it was applied to is written beside the output;
    relu needs its output alone, and a layer without activation its factors. Raises ``TypeError`` or ``ValueError``
    naming the argument that does not fit. ``rung`` asks for one kernel of the ladder by name.
    """
    keep = return_preactivation
    if activation is not None and (activation != "relu" or residual is not None) and torch.is_grad_enabled():
        keep = keep or any(
            isinstance(value, torch.Tensor) and value.requires_grad for value in (input, weight, bias, row_scale)
        )
    output, preactivation = _linear(input, weight, bias, activation, residual, row_scale, keep, rung=rung)
    return (output, preactivation) if return_preactivation else output


def activation_backward(
    grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str, *, rung: str | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient before an activation, ``grad_output * activation'(preactivation)``, and its sum over rows, a bias's.

    Both (..., N), float16, bfloat16, float32 or float64, alike; computed in float32. ``activation``: "relu", "gelu" or
    "gelu_tanh"; relu asks for the sign of ``preactivation`` alone, so that its output does as well. What autograd calls
    by itself; here for who writes a backward by hand. Differentiable. Raises ``TypeError`` or ``ValueError`` naming the
    argument that does not fit. ``rung`` asks for one kernel of the ladder by name.
    """
    result: tuple[torch.Tensor, torch.Tensor] = _activation_backward(grad_output, preactivation, activation, rung=rung)
    return result
