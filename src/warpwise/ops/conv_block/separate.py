"""The block by conv2d, batch_norm and max_pool2d, for arguments that the fused kernels refuse or are slower for.

With gradients the four operations are one node of the graph: a node in Python costs about 10 µs of host time in the
forward and as much in the backward. relu follows the pooling, the same result for a quarter of the values.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from warpwise.arguments.values import in_forward_mode
from warpwise.ops.batch_norm.op import BATCH_NORM, BATCH_NORM_BACKWARD
from warpwise.ops.conv2d.op import CONV2D, CONV2D_BACKWARD
from warpwise.ops.max_pool2d.op import MAX_POOL2D, MAX_POOL2D_BACKWARD

Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
OptionalTensor = torch.Tensor | None
ONE, TWO, ZERO = [1, 1], [2, 2], [0, 0]
_threshold_backward: Any = torch.ops.aten.threshold_backward.default


def block(
    input: torch.Tensor, weight: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float, tf32: bool
) -> Three:
    """The output (N, K, H // 2, W // 2), mean and variance (K,) for checked arguments. Differentiable."""
    records = torch.is_grad_enabled() and (
        input.requires_grad or weight.requires_grad or gamma.requires_grad or beta.requires_grad
    )
    if records and not _is_transformed():
        made: Three = _apply(input, weight, gamma, beta, eps, tf32)
        return made
    return _chained(input, weight, gamma, beta, eps, tf32)


def _is_transformed() -> bool:
    """True where a node without ``setup_context`` would raise: function transforms, forward mode, dispatch modes."""
    transforms: bool = torch._C._are_functorch_transforms_active()
    return transforms or in_forward_mode() or is_in_torch_dispatch_mode() or torch.jit.is_tracing()


def _chained(
    input: torch.Tensor, weight: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float, tf32: bool
) -> Three:
    """The block as a chain of differentiable operations."""
    convolved = CONV2D.call(input, weight, None, ONE, ONE, ONE, 1, tf32)
    normal, mean, var = BATCH_NORM.call(convolved, gamma, beta, eps)
    return torch.relu(MAX_POOL2D.call(normal, TWO, TWO, ZERO)), mean, var


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Three:
        input, weight, gamma, beta, ctx.eps, ctx.tf32 = args
        convolved = CONV2D.call(input, weight, None, ONE, ONE, ONE, 1, ctx.tf32)
        normal, mean, var = BATCH_NORM.call(convolved, gamma, beta, ctx.eps)
        output, indices = MAX_POOL2D.every(normal, TWO, TWO, ZERO)
        output = output.relu_()
        ctx.save_for_backward(input, weight, gamma, beta, convolved, mean, var, output, indices)
        ctx.set_materialize_grads(False)
        return output, mean, var

    @staticmethod
    def backward(ctx: Any, *grads: OptionalTensor) -> tuple[OptionalTensor, ...]:
        dy, dmean, dvar = grads
        input, weight, gamma, beta, convolved, mean, var, output, indices = ctx.saved_tensors
        if torch.is_grad_enabled():  # the saved intermediate results have no graph of their own
            return (*_again(ctx, grads, (input, weight, gamma, beta)), None, None)
        if dy is not None:
            dy = _threshold_backward(dy, output, 0)
            dy = MAX_POOL2D_BACKWARD.call(dy, indices, list(convolved.shape), TWO, TWO, ZERO)
        d, dgamma, dbeta = BATCH_NORM_BACKWARD.call(dy, dmean, dvar, convolved, gamma, beta, ctx.eps, mean, var)
        needs = ctx.needs_input_grad
        dx, dw, _ = CONV2D_BACKWARD.call(d, input, weight, None, ONE, ONE, ONE, 1, needs[0], needs[1], False, ctx.tf32)
        return dx, dw, dgamma, dbeta, None, None


# Function.apply first checks for function transforms, which ``_is_transformed`` excludes; its base class's does not.
_apply = super(torch.autograd.Function, _Block).apply


def _again(
    ctx: Any, grads: tuple[OptionalTensor, ...], arguments: tuple[torch.Tensor, ...]
) -> tuple[OptionalTensor, ...]:
    """The gradients, themselves differentiable: those of the chain, whose forward is computed again."""
    input, weight, gamma, beta = arguments
    outputs = _chained(input, weight, gamma, beta, ctx.eps, ctx.tf32)
    given = [(one, grad) for one, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = [one for one, need in zip(arguments, ctx.needs_input_grad, strict=False) if need]
    if not given:
        return tuple(torch.zeros_like(one) if one.requires_grad else None for one in arguments)
    found = iter(torch.autograd.grad([one for one, _ in given], wanted, [grad for _, grad in given], create_graph=True))
    return tuple(next(found) if need else None for need in ctx.needs_input_grad[: len(arguments)])
