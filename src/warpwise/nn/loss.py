"""The cross-entropy loss as a module, and the loss of a network that ends in a linear layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from warpwise.cuda.gpu.branch import aside
from warpwise.nn.convolution import ConvBlock, Sequential, Update, update_running
from warpwise.nn.linear import Linear
from warpwise.operation import sm_count
from warpwise.ops.conv_block import by_parts
from warpwise.ops.cross_entropy.op import cross_entropy
from warpwise.ops.linear_cross_entropy.op import (
    BLOCK_CROSS_ENTROPY_GRADIENTS,
    LINEAR_CROSS_ENTROPY_GRADIENTS,
    block_cross_entropy_gradients,
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


class _WithGradients(torch.autograd.Function):
    """A function whose forward puts the gradients of its arguments into ``ctx.grads``."""

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        grads, ctx.grads = ctx.grads, ()  # the only references, so that autograd takes them over without copies
        return grads


class _LossWithGradients(_WithGradients):
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


class _BlockLossWithGradients(_WithGradients):
    """The same from the convolution of the last block on; returns the block's mean and variance too.

    ``before_loss`` is called before the convolution.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: torch.Tensor,
        gamma: torch.Tensor,
        beta: torch.Tensor,
        hidden_weight: torch.Tensor,
        hidden_bias: torch.Tensor,
        linear_weight: torch.Tensor,
        linear_bias: torch.Tensor | None,
        target: torch.Tensor,
        eps: float,
        ignore_index: int,
        before_loss: Callable[[], None],
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        block = input, weight, gamma, beta, eps
        before_loss()
        convolved, statistics = by_parts.convolve(*block)
        made = block_cross_entropy_gradients(
            *(convolved, statistics, gamma, beta, eps, hidden_weight, hidden_bias, linear_weight, target),
            *(linear_bias, ignore_index),
        )
        given = *block, made.mean, made.var, convolved, True, made.output
        of_block = by_parts.gradients(made.grad_output, made.channel_sums, *given)
        ctx.grads = *of_block, *made[6:], *(None,) * 4
        ctx.mark_non_differentiable(made.mean, made.var)
        ctx.set_materialize_grads(False)
        return made.loss, made.mean, made.var


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
    if of_one and early and (block := _last_block(layers)) is not None:
        updates: list[Update] = []
        input = _with_updates(layers[:-4], input, updates)
        if (args := _after_block(block, input, layers, last, target, loss)) is not None:
            value: torch.Tensor
            value, mean, var = _BlockLossWithGradients.apply(*args, before_loss)
            updates.append(block.update(input, mean, var))
            aside(lambda: update_running(updates), updates, follows=True)
            return value
        input = _with_updates(layers[-4:-2], input, updates)
        if updates:
            aside(lambda: update_running(updates), updates)
    else:
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


def _with_updates(layers: torch.nn.Module, input: torch.Tensor, updates: list[Update]) -> torch.Tensor:
    """The output of ``layers``; a ``Sequential`` of ours appends updates of running statistics to ``updates``."""
    output: torch.Tensor = layers.with_updates(input, updates) if isinstance(layers, Sequential) else layers(input)
    return output


def _last_block(layers: torch.nn.Sequential) -> ConvBlock | None:
    """The block before a flattening, a hidden layer with relu and the last layer, if nothing observes these layers."""
    if len(layers) < 5:
        return None
    block, flatten, hidden, _ = list(layers)[-4:]
    if not (type(block) is ConvBlock and type(flatten) is torch.nn.Flatten and type(hidden) is Linear):
        return None
    of_block = block, block.conv, block.norm
    if any(map(_has_hooks, (*of_block, flatten, hidden))) or not (block.training and block.norm.training):
        return None
    plain = (flatten.start_dim, flatten.end_dim) == (1, -1) and hidden.activation == "relu" and hidden.bias is not None
    return block if plain and block.norm.statistics_over is None else None


def _after_block(
    block: ConvBlock,
    input: torch.Tensor,
    layers: torch.nn.Sequential,
    last: Linear,
    target: torch.Tensor,
    loss: CrossEntropyLoss,
) -> tuple[Any, ...] | None:
    """The arguments of ``_BlockLossWithGradients`` without the last, if kernels take them."""
    hidden, weight, gamma, beta, eps = layers[-2], block.conv.weight, block.norm.weight, block.norm.bias, block.norm.eps
    assert isinstance(hidden, Linear)
    tensors = weight, gamma, beta, hidden.weight, hidden.bias, last.weight
    if not input.requires_grad or any(each.dtype != torch.float32 or not each.requires_grad for each in tensors):
        return None
    if target.dtype != torch.int64 or target.shape != input.shape[:1]:
        return None
    if not by_parts.has_parts(input, weight, gamma, beta, eps):
        return None
    (n, _, h, w), k = input.shape, len(weight)
    convolved, statistics = input.new_empty((n, k, h, w)), input.new_empty((k, 1, 3))
    if hidden.weight.shape[1] != k * (h // 2) * (w // 2):
        return None
    args = convolved, statistics, gamma, beta, eps, hidden.weight, hidden.bias, last.weight, target, last.bias
    if BLOCK_CROSS_ENTROPY_GRADIENTS.planned(*args, loss.ignore_index) is None:
        return None
    return input, *tensors, last.bias, target, eps, loss.ignore_index


def _has_hooks(module: torch.nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks)
