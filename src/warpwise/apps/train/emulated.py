"""A training step by our CUDA kernels on a CPU, emulated with every access checked: for a few steps of small batches.

On a CPU autograd would call PyTorch, so the backward is written out here: the forward of each layer returns what its
backward needs. The kernels are those that a GPU runs, except for the matrix multiplications, which run the first
CUDA kernels of their ladders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import warpwise.nn
import warpwise.optim
from warpwise.operation import Op
from warpwise.ops.batch_norm.op import RUNNING_STATISTICS
from warpwise.ops.conv_block.op import CONV_BLOCK, CONV_BLOCK_BACKWARD
from warpwise.ops.cross_entropy.op import CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD
from warpwise.ops.gather_images.op import GATHER_IMAGES
from warpwise.ops.linear.op import ACTIVATION_BACKWARD, LINEAR
from warpwise.ops.matmul.op import MATMUL
from warpwise.ops.sgd.op import SGD

PRODUCT, LAYER, ACTIVATION = "k03_naive", "k01", "k02_few_rows"  # rungs of matmul, linear, activation_backward
IGNORED = -100  # of cross_entropy

Pull = Callable[[torch.Tensor], torch.Tensor | None]  # from the gradient of a layer's output to that of its input


def launched(op: Op, *args: Any, rung: str | None = None) -> Any:
    """All outputs of ``op``, saved ones too, by ``rung``, or the ladder's default, or the last rung in CUDA C++."""
    taking = (each.name for each in reversed(op.rungs) if each.language == "cuda" and not op.refusal(each, *args))
    name = rung or op.default(*args) or next(taking, None)
    if name is None:
        raise ValueError(f"{op.name}: no kernel takes these arguments")
    outputs = op.allocate(*args)
    op.launch(op.rung(name), outputs, *args)
    return outputs


def gathered(
    pixels: torch.Tensor, indices: torch.Tensor, mean: float, std: float, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The images at ``indices``, normalised, and their labels."""
    images, gathered_labels = launched(GATHER_IMAGES, pixels, indices, mean, std, labels)
    return images, gathered_labels


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = launched(MATMUL, a.contiguous(), b.contiguous(), rung=PRODUCT)[0]
    return made


def _linear(layer: warpwise.nn.Linear, x: torch.Tensor) -> tuple[torch.Tensor, Pull]:
    """y = a(x W^T + b). With g the gradient before the activation dx = g W, dW = g^T x, db = the sum of g over rows."""
    weight, bias = layer.weight.detach(), layer.bias.detach()
    y = launched(LINEAR, x, weight, bias, layer.activation, None, None, False, rung=LAYER)[0]

    def pull(grad: torch.Tensor) -> torch.Tensor:
        if layer.activation is None:
            layer.bias.grad = grad.sum(0)
        else:
            grad, layer.bias.grad = launched(ACTIVATION_BACKWARD, grad, y, layer.activation, rung=ACTIVATION)
        layer.weight.grad = _product(grad.t(), x)
        return _product(grad, weight)

    return y, pull


def _block(layer: warpwise.nn.ConvBlock, x: torch.Tensor, first: bool) -> tuple[torch.Tensor, Pull]:
    """The fused block; the gradient of the network's input is not computed."""
    conv, norm = layer.conv, layer.norm
    args = (x, conv.weight.detach(), norm.weight.detach(), norm.bias.detach(), norm.eps)
    y, mean, var, convolved = launched(CONV_BLOCK, *args, None)
    count = x.numel() // x.shape[1]
    running = ([norm.running_mean], [norm.running_var], [norm.num_batches_tracked])
    bias = None if conv.bias is None else [conv.bias.detach()]
    launched(RUNNING_STATISTICS, *running, [mean], [var], bias, (norm.momentum,), (count / (count - 1),))

    def pull(grad: torch.Tensor) -> torch.Tensor | None:
        grads = (grad.contiguous(), None, None, None)
        found = launched(CONV_BLOCK_BACKWARD, *grads, *args, mean, var, convolved, not first, y, None)
        dx, conv.weight.grad, norm.weight.grad, norm.bias.grad = found
        return dx

    return y, pull


def step(
    model: torch.nn.Module, optimizer: warpwise.optim.SGD, input: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """Train ``model``, a network of ``networks.build`` with our modules, on a batch; the loss before the step."""
    pulls: list[Pull] = []
    x = input
    for number, layer in enumerate(model.children()):
        if isinstance(layer, torch.nn.Flatten):
            shape = x.shape
            x = x.flatten(1)
            pulls.append(lambda grad, shape=shape: grad.view(shape))  # type: ignore[misc]
        elif isinstance(layer, warpwise.nn.ConvBlock):
            x, pull = _block(layer, x, first=number == 0)
            pulls.append(pull)
        elif isinstance(layer, warpwise.nn.Linear):
            x, pull = _linear(layer, x)
            pulls.append(pull)
        else:
            raise TypeError(f"engine emulated: expected a block or a linear layer, got {type(layer).__name__}")
    loss, count = launched(CROSS_ENTROPY, x, target, IGNORED)
    grad: torch.Tensor | None = launched(CROSS_ENTROPY_BACKWARD, torch.ones_like(loss), x, target, IGNORED, count)[0]
    for pull in reversed(pulls):
        if grad is not None:
            grad = pull(grad)
    with torch.no_grad():
        for group in optimizer.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            buffers = [optimizer.buffer(param) for param in params] if group["momentum"] else None
            settings = (group["lr"], group["momentum"], group["weight_decay"], group["nesterov"])
            launched(SGD, [param.detach() for param in params], [param.grad for param in params], buffers, *settings)
    result: torch.Tensor = loss
    return result
