"""The convolution of a block, and its gradients, for a caller that computes what is between them itself."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops.conv_block.backward import rungs as backward
from warpwise.ops.conv_block.op import CONV_BLOCK, CONV_BLOCK_BACKWARD, Gradients
from warpwise.ops.conv_block.over_processes import CONVOLUTIONS, takes
from warpwise.ops.conv_block.spec import convolved_shape

GRADIENTS = {"k03_direct_tiles": backward.direct_tiles, "k06_tensor_cores": backward.tensor_cores}


def has_parts(input: torch.Tensor, weight: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float) -> bool:
    """True if ``convolve`` and ``gradients`` take the arguments of a block whose input needs a gradient."""
    if not takes(input, weight, gamma, beta, eps):
        return False
    convolved = input.new_empty(convolved_shape(input, weight))
    n, k, h, w = convolved.shape
    args = input.new_empty((n, k, h // 2, w // 2)), None, None, None, input, weight, gamma, beta, eps, gamma, beta
    rung = CONV_BLOCK_BACKWARD.planned(*args, convolved, True, args[0], None)
    return rung is not None and rung.name in GRADIENTS


def convolve(
    input: torch.Tensor, weight: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The convolution, (N, K, H, W), and its statistics: (K, parts, 3), sum, squared distances from the mean, number.

    ``has_parts`` is true.
    """
    rung = CONV_BLOCK.planned(input, weight, gamma, beta, eps, None)
    assert rung is not None
    convolved = input.new_empty(convolved_shape(input, weight))
    return convolved, CONVOLUTIONS[rung.name](input, weight, convolved)


def gradients(grad: torch.Tensor, channel_sums: torch.Tensor, *args: Any) -> Gradients:
    """The gradients of input, weight, gamma and beta; ``args`` are those of conv_block_backward, ``has_parts`` is true.

    ``channel_sums``, (K, parts, 2), are parts of the sums of g and of g times the normalised value over each channel, g
    the gradient ``grad`` of the output where the output is positive.
    """
    given = (grad, None, None, None, *args)
    outputs: Any = CONV_BLOCK_BACKWARD.allocate(*given, None)
    rung = CONV_BLOCK_BACKWARD.planned(*given, None)
    assert rung is not None
    GRADIENTS[rung.name](outputs, *given, sums=channel_sums)
    found: Gradients = tuple(outputs)
    return found
