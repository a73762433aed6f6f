"""The block by conv2d, batch_norm and max_pool2d, for arguments that the fused kernels refuse or are slower for.

With gradients the four operations are one node of the graph: a node in Python costs about 10 µs of host time in the
forward and as much in the backward. relu is a part of the pooling: the index of a window that is 0 is -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from warpwise.arguments.layout import has_nhwc_strides
from warpwise.arguments.values import in_forward_mode
from warpwise.ops.batch_norm.op import BATCH_NORM, BATCH_NORM_BACKWARD
from warpwise.ops.conv2d.op import CONV2D, CONV2D_BACKWARD
from warpwise.ops.max_pool2d.op import MAX_POOL2D, MAX_POOL2D_BACKWARD

Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
OptionalTensor = torch.Tensor | None
ONE, TWO, ZERO = [1, 1], [2, 2], [0, 0]
_NO_GRADIENTS = None, None, None  # of eps, tf32 and moments


def block(
    input: torch.Tensor, weight: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float, tf32: bool
) -> Three:
    """The output (N, K, H // 2, W // 2), mean and variance (K,) for checked arguments. Differentiable."""
    way = _chained if _is_transformed() else plan(input, weight, gamma, beta)
    made: Three = way(input, weight, gamma, beta, eps, tf32)
    return made


def plan(*tensors: torch.Tensor) -> Callable[..., Three]:
    """The function of ``block``'s arguments for tensors of the same properties, where nothing is transformed."""
    records = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return _apply if records else _chained


def _is_transformed() -> bool:
    """True where a node without ``setup_context`` would raise: function transforms, forward mode, dispatch modes."""
    transforms: bool = torch._C._are_functorch_transforms_active()
    return transforms or in_forward_mode() or is_in_torch_dispatch_mode() or torch.jit.is_tracing()


def _chained(
    input: torch.Tensor,
    weight: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
    tf32: bool,
    moments: None = None,
) -> Three:
    """The block as a chain of differentiable operations."""
    convolved = CONV2D.call(input, weight, None, ONE, ONE, ONE, 1, tf32)
    normal, mean, var = BATCH_NORM.call(convolved, gamma, beta, eps)
    return MAX_POOL2D.call(normal, TWO, TWO, ZERO, True), mean, var


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: torch.Tensor,
        gamma: torch.Tensor,
        beta: torch.Tensor,
        eps: float,
        tf32: bool,
        moments: None = None,
    ) -> Three:
        convolved = CONV2D.call(input, weight, None, ONE, ONE, ONE, 1, tf32)
        normal, mean, var = BATCH_NORM.call(convolved, gamma, beta, eps)
        output, indices = MAX_POOL2D.every(normal, TWO, TWO, ZERO, True)
        ctx.save_for_backward(input, weight, gamma, beta, convolved, mean, var, indices)
        ctx.settings, ctx.nhwc = (eps, tf32), has_nhwc_strides(normal)
        ctx.set_materialize_grads(False)
        return output, mean, var

    @staticmethod
    def backward(ctx: Any, *grads: OptionalTensor) -> tuple[OptionalTensor, ...]:
        dy, dmean, dvar = grads
        input, weight, gamma, beta, convolved, mean, var, indices = ctx.saved_tensors
        if torch.is_grad_enabled():  # the saved intermediate results have no graph of their own
            return (*_again(ctx, grads, (input, weight, gamma, beta)), *_NO_GRADIENTS)
        if dy is not None:
            dy = MAX_POOL2D_BACKWARD.call(dy, indices, list(convolved.shape), TWO, TWO, ZERO, ctx.nhwc)
        (eps, tf32), (of_input, of_weight, *_) = ctx.settings, ctx.needs_input_grad
        d, dgamma, dbeta = BATCH_NORM_BACKWARD.call(dy, dmean, dvar, convolved, gamma, beta, eps, mean, var)
        dx, dw, _ = CONV2D_BACKWARD.call(d, input, weight, None, ONE, ONE, ONE, 1, of_input, of_weight, False, tf32)
        return dx, dw, dgamma, dbeta, *_NO_GRADIENTS


# Function.apply first checks for function transforms, which ``_is_transformed`` excludes; its base class's does not.
_apply = super(torch.autograd.Function, _Block).apply


def _again(
    ctx: Any, grads: tuple[OptionalTensor, ...], arguments: tuple[torch.Tensor, ...]
) -> tuple[OptionalTensor, ...]:
    """The gradients, themselves differentiable: those of the chain, whose forward is computed again."""
    input, weight, gamma, beta = arguments
    outputs = _chained(input, weight, gamma, beta, *ctx.settings)
    given = [(one, grad) for one, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = [one for one, need in zip(arguments, ctx.needs_input_grad, strict=False) if need]
    if not given:
        return tuple(torch.zeros_like(one) if one.requires_grad else None for one in arguments)
    found = iter(torch.autograd.grad([one for one, _ in given], wanted, [grad for _, grad in given], create_graph=True))
    return tuple(next(found) if need else None for need in ctx.needs_input_grad[: len(arguments)])
