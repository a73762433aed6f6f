"""Convolutional modules: those of ``torch.nn`` with the operations of ``warpwise.ops``."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from warpwise.ops.avg_pool2d.op import avg_pool2d
from warpwise.ops.batch_norm.op import batch_norm
from warpwise.ops.conv2d.op import conv2d
from warpwise.ops.max_pool2d.op import max_pool2d


class Conv2d(torch.nn.Conv2d):
    """``torch.nn.Conv2d`` computed by ``ops.conv2d``: the same constructor, parameters and state dict.

    Images (C, H, W), paddings "same" and "valid" and padding modes other than zeros are left to PyTorch.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.dim() != 4 or self.padding_mode != "zeros" or isinstance(self.padding, str):
            return super().forward(input)
        return conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class BatchNorm2d(torch.nn.BatchNorm2d):
    """``torch.nn.BatchNorm2d`` whose training statistics come from ``ops.batch_norm``; running ones follow PyTorch's.

    In evaluation with running statistics PyTorch computes. Raises ``ValueError`` for a batch with one value a channel.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if not self.training and self.running_mean is not None:
            return super().forward(input)
        count = input.numel() // max(1, input.shape[1])
        if count < 2 and self.training:
            raise ValueError(f"BatchNorm2d: expected several values a channel to train with, got {tuple(input.shape)}")
        output, mean, var = batch_norm(input, self.weight, self.bias, self.eps)
        if self.training:
            self.update_running(mean.detach(), var.detach(), count)
        return output

    @torch.no_grad()
    def update_running(self, mean: torch.Tensor, var: torch.Tensor, count: int) -> None:
        """Move the running statistics towards those of a batch of ``count`` values a channel.

        The running variance is the unbiased one, var count / (count - 1).
        """
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        if self.momentum is None:  # a cumulative average
            factor = 1 / self.num_batches_tracked.to(self.running_mean.dtype)
            self.running_mean.lerp_(mean, factor)
            self.running_var.lerp_(var * (count / (count - 1)), factor)
            return
        self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
        self.running_var.mul_(1 - self.momentum).add_(var, alpha=self.momentum * count / (count - 1))


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


class MaxPool2d(torch.nn.MaxPool2d):
    """``torch.nn.MaxPool2d`` computed by ``ops.max_pool2d``; dilation, ceil_mode and indices are left to PyTorch."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        plain = _pair(self.dilation) == (1, 1) and not self.ceil_mode and not self.return_indices
        if input.dim() != 4 or not plain:
            return super().forward(input)
        return max_pool2d(input, self.kernel_size, self.stride, self.padding)


class AvgPool2d(torch.nn.AvgPool2d):
    """``torch.nn.AvgPool2d`` computed by ``ops.avg_pool2d``; ceil_mode and divisor_override are left to PyTorch."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.dim() != 4 or self.ceil_mode or self.divisor_override is not None:
            return super().forward(input)
        return avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.count_include_pad)
