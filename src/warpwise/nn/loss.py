"""The cross-entropy loss as a module, and the loss of a network that ends in a linear layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from warpwise.nn.convolution import Sequential
from warpwise.nn.linear import Linear
from warpwise.operation import sm_count
from warpwise.ops.cross_entropy.op import cross_entropy
from warpwise.ops.linear_cross_entropy.op import (
    LINEAR_CROSS_ENTROPY_GRADIENTS,
    has_kernels,
    linear_cross_entropy,
    linear_cross_entropy_gradients,
)


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """``torch.nn.CrossEntropyLoss`` computed by ``ops.cross_entropy``: the same constructor.

    PyTorch computes the loss with class weights, label smoothing, targets that are probabilities, inputs that are not
    (N, C), or a reduction other than the mean.
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if not self.is_plain or input.dim() != 2 or target.dtype != torch.int64:
            return super().forward(input, target)
        return cross_entropy(input, target, self.ignore_index)

    @property
    def is_plain(self) -> bool:
        """True for the mean without class weights and label smoothing."""
        return self.weight is None and self.reduction == "mean" and not self.label_smoothing


class _LossWithGradients(torch.autograd.Function):
    """linear_cross_entropy whose forward also computes the gradients, of a loss whose own gradient is 1."""

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: torch.Tensor,
        target: torch.Tensor,
        bias: torch.Tensor | None,
        ignore_index: int,
    ) -> torch.Tensor:
        needs_input = ctx.needs_input_grad[0]
        loss, grad_input, grad_weight, grad_bias = linear_cross_entropy_gradients(
            input, weight, target, bias, ignore_index, needs_input
        )
        ctx.grads = grad_input, grad_weight, None, grad_bias, None
        return loss

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        grads, ctx.grads = ctx.grads, ()  # the only references, so that autograd takes them over without copies
        return grads


def loss_of(
    model: torch.nn.Module,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    input: torch.Tensor,
    target: torch.Tensor,
    before_loss: Callable[[], None] = lambda: None,
    of_one: bool = False,
) -> torch.Tensor:
    """``loss(model(input), target)``; ``compile_step`` states when the last layer and the loss are one operation.

    ``before_loss`` is called between the two, or one layer earlier if there is at most one row per SM: the kernels of
    all layers then leave SMs idle, except for those of a convolution's gradients, which come later. ``of_one``: the
    backward will be called once, with a gradient of 1.
    """
    layers = (
        model if isinstance(model, torch.nn.Sequential) and type(model) in (torch.nn.Sequential, Sequential) else None
    )
    last = layers[-1] if layers else None
    fused = (
        type(last) is Linear
        and last.activation is None
        and type(loss) is CrossEntropyLoss
        and loss.is_plain
        and not any(map(_has_hooks, (model, last, loss)))
    )
    if not fused:
        output = model(input)
        before_loss()
        return loss(output, target)
    assert layers is not None and isinstance(last, Linear) and isinstance(loss, CrossEntropyLoss)
    early = len(input) <= sm_count(input)
    input = layers[:-2](input)
    if early:
        before_loss()
    input = layers[-2:-1](input)
    if not early:
        before_loss()
    if input.dim() != 2 or target.dtype != torch.int64 or not has_kernels(input, last.weight):
        return loss(last(input), target)
    args = input, last.weight, target, last.bias, loss.ignore_index
    if of_one and input.is_cuda and LINEAR_CROSS_ENTROPY_GRADIENTS.planned(*args, True) is not None:
        made: torch.Tensor = _LossWithGradients.apply(*args)
        return made
    return linear_cross_entropy(input, last.weight, target, last.bias, loss.ignore_index)


def _has_hooks(module: torch.nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks)
