"""Convolutional modules of ``torch.nn``, computed by the operations of ``warpwise.ops``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed import ProcessGroup

from warpwise.cuda.gpu.branch import aside
from warpwise.nn.batch_statistics import average, batch_norm_over
from warpwise.ops.avg_pool2d.op import avg_pool2d
from warpwise.ops.batch_norm.op import batch_norm, layer_statistics, running_statistics
from warpwise.ops.conv2d.op import conv2d
from warpwise.ops.conv_block import over_processes
from warpwise.ops.conv_block.op import conv_block, patch_moments
from warpwise.ops.max_pool2d.op import max_pool2d


class Conv2d(torch.nn.Conv2d):
    """``torch.nn.Conv2d`` computed by ``ops.conv2d``: the same constructor, parameters and state dict.

    PyTorch computes unbatched images (C, H, W), complex ones, the paddings "same" and "valid", and padding modes other
    than zeros. If ``tf32`` is set, float32 operands may be rounded to TF32.
    """

    tf32: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The convolution of ``input`` (N, C, H, W) or (C, H, W)."""
        other = input.dim() != 4 or input.is_complex() or self.padding_mode != "zeros"
        if other or isinstance(self.padding, str):
            return super().forward(input)
        settings = (self.stride, self.padding, self.dilation, self.groups)
        return conv2d(input, self.weight, self.bias, *settings, tf32=self.tf32)


class BatchNorm2d(torch.nn.BatchNorm2d):
    """``torch.nn.BatchNorm2d``, in training computed by ``ops.batch_norm``; running statistics change as in PyTorch.

    PyTorch computes evaluation with running statistics, and empty batches. Raises ``ValueError`` for a batch with one
    value per channel.

    ``statistics_over`` is the group of processes whose batches are normalised together; ``DataParallel`` sets it. A
    copy, or a pickled module, has no such group, as its gradients are not averaged either.
    """

    statistics_over: ProcessGroup | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "statistics_over"}

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """``input`` (N, C, H, W), normalised; in training the running statistics are updated."""
        self._check_input_dim(input)
        if not self.training and self.running_mean is not None:
            return super().forward(input)
        count = input.numel() // max(1, input.shape[1])
        if not count and self.statistics_over is None:
            return super().forward(input)
        if count < 2 and self.training:
            raise ValueError(
                f"BatchNorm2d: expected several values per channel to train with, got {tuple(input.shape)}"
            )
        return self.by_batch(input, None, count)

    def by_batch(self, input: torch.Tensor, bias: torch.Tensor | None, count: int) -> torch.Tensor:
        """Normalise by the statistics of the batch, ``count`` values per channel, of ``input`` without its ``bias``."""
        group = self.statistics_over if self.training else None
        if group is None:
            output, mean, var = batch_norm(input, self.weight, self.bias, self.eps)
        else:
            output, mean, var = batch_norm_over(group, input, self.weight, self.bias, self.eps)
            count *= group.size()
        if self.training:
            self.update_running(mean.detach(), var.detach(), bias, count)
        return output

    def update_running(self, mean: torch.Tensor, var: torch.Tensor, bias: torch.Tensor | None, count: int) -> None:
        """Move the running statistics towards mean + bias and var of a batch of ``count`` values per channel.

        The running variance is the unbiased one, var count / (count - 1).
        """
        update_running([Update(self, mean, var, bias, count)])


@dataclass(frozen=True)
class Update:
    """The statistics of a batch, of ``count`` values per channel without the ``bias`` of the convolution before."""

    norm: BatchNorm2d
    mean: torch.Tensor
    var: torch.Tensor
    bias: torch.Tensor | None
    count: int

    @property
    def correction(self) -> float:
        return self.count / (self.count - 1)


@torch.no_grad()
def update_running(updates: Sequence[Update]) -> None:
    """Update the running statistics of layers, on a GPU in one launch; those of a cumulative average layer by layer."""
    if len(updates) == 1 and _updates_layer(updates[0]):
        return
    together: dict[bool, list[Update]] = {True: [], False: []}  # with and without a bias
    for update in updates:
        norm = update.norm
        if not norm.track_running_stats or norm.running_mean is None or norm.running_var is None:
            continue
        if norm.momentum is not None:
            together[update.bias is not None].append(update)
            continue
        assert norm.num_batches_tracked is not None
        norm.num_batches_tracked.add_(1)
        factor = 1 / norm.num_batches_tracked.to(norm.running_mean.dtype)  # computed on the device
        norm.running_mean.lerp_(update.mean if update.bias is None else update.mean + update.bias, factor)
        norm.running_var.lerp_(update.var * update.correction, factor)
    for biased, group in together.items():
        if group:
            running_statistics(
                [_present(one.norm.running_mean) for one in group],
                [_present(one.norm.running_var) for one in group],
                [_present(one.norm.num_batches_tracked) for one in group],
                [one.mean.to(_present(one.norm.running_mean).dtype) for one in group],
                [one.var.to(_present(one.norm.running_var).dtype) for one in group],
                [_present(one.bias).to(_present(one.norm.running_mean).dtype) for one in group] if biased else None,
                [one.norm.momentum or 0.0 for one in group],
                [one.correction for one in group],
            )


def _updates_layer(update: Update) -> bool:
    """Update the statistics of one layer with less host time than those of a list, if dtypes and momentum allow it."""
    norm, mean, var = update.norm, update.mean, update.var
    running = norm.running_mean
    if running is None or norm.momentum is None or not norm.track_running_stats or running.dtype != mean.dtype:
        return False
    if update.bias is not None and running.dtype != update.bias.dtype:
        return False
    statistics = (_present(norm.running_var), _present(norm.num_batches_tracked), mean, var, update.bias)
    layer_statistics(running, *statistics, norm.momentum, update.correction)
    return True


def _present(tensor: torch.Tensor | None) -> torch.Tensor:
    assert tensor is not None
    return tensor


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


class MaxPool2d(torch.nn.MaxPool2d):
    """``torch.nn.MaxPool2d`` computed by ``ops.max_pool2d``.

    PyTorch computes integers, unbatched images (C, H, W), and the pooling with dilation, ceil_mode or indices.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        plain = _pair(self.dilation) == (1, 1) and not self.ceil_mode and not self.return_indices
        if input.dim() != 4 or not plain or not input.is_floating_point():
            return super().forward(input)
        return max_pool2d(input, self.kernel_size, self.stride, self.padding)


class AvgPool2d(torch.nn.AvgPool2d):
    """``torch.nn.AvgPool2d`` computed by ``ops.avg_pool2d``.

    PyTorch computes integers, unbatched images (C, H, W), and the pooling with ceil_mode or divisor_override.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        plain = not self.ceil_mode and self.divisor_override is None
        if input.dim() != 4 or not plain or not input.is_floating_point():
            return super().forward(input)
        return avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.count_include_pad)


class ConvBlock(torch.nn.Module):
    """Convolution 3 x 3 with padding 1, batch normalisation, relu and max pooling by 2, trained by ``ops.conv_block``.

    The input is (N, in_channels, H, W), the output (N, out_channels, H // 2, W // 2). ``conv`` and ``norm`` hold the
    parameters and running statistics, so the state dict is that of ``torch.nn.Sequential`` with modules called conv,
    norm, relu and pool. Batch normalisation cancels the bias of ``conv``, which therefore changes only the running
    mean and gets no gradient (PyTorch's gradient is 0 up to rounding). In evaluation, four separate operations compute
    the block with running statistics. In ``DataParallel`` the statistics are those of the batches of all processes:
    the fused kernels exchange their sums, and separate operations compute what the kernels do not take. Separate
    operations also compute a 16-bit convolution with a normalisation in float32.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        bias: bool = True,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.conv = Conv2d(in_channels, out_channels, 3, padding=1, bias=bias, device=device, dtype=dtype)
        self.norm = BatchNorm2d(out_channels, eps, momentum, device=device, dtype=dtype)
        self._prepared: tuple[torch.Tensor, int, torch.Tensor | None] | None = None

    def prepare(self, input: torch.Tensor) -> None:
        """Compute what depends on ``input`` alone, for the next call with this tensor."""
        self._prepared = (input, input._version, self._computed_moments(input)) if self.training else None

    def _computed_moments(self, input: torch.Tensor) -> torch.Tensor | None:
        """The moments of ``input``, in ``DataParallel`` of the inputs of all processes, where kernels take them."""
        moments, group = patch_moments(input), self.norm.statistics_over
        if moments is not None and group is not None:
            over_processes.average_moments(moments, functools.partial(average, group=group))
        return moments

    def _moments(self, input: torch.Tensor) -> torch.Tensor | None:
        """The moments of ``prepare``, which are used once, or None: one process computes them in ``conv_block``."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared[0] is input and prepared[1] == input._version:
            return prepared[2]
        return None if self.norm.statistics_over is None else self._computed_moments(input)

    def forward(self, input: torch.Tensor, updates: list[Update] | None = None) -> torch.Tensor:
        """The block's output. In training the running statistics are updated, or appended to ``updates``."""
        if not self.training:
            return max_pool2d(self.norm(self.conv(input)), 2, relu=True)
        count = input.numel() // max(1, input.shape[1])
        if count < 2:
            raise ValueError(f"ConvBlock: expected several values per channel to train with, got {tuple(input.shape)}")
        weight, gamma, beta = self.conv.weight, self.norm.weight, self.norm.bias
        bias = None if self.conv.bias is None else self.conv.bias.detach()
        group, moments = self.norm.statistics_over, self._moments(input)
        one_dtype = gamma.dtype == weight.dtype  # not of a 16-bit convolution with a normalisation in float32
        if one_dtype and (group is None or moments is not None):
            output, mean, var = conv_block(input, weight, gamma, beta, self.norm.eps, self.conv.tf32, moments)
        elif group is not None and one_dtype and over_processes.takes(input, weight, gamma, beta, self.norm.eps):
            averages = functools.partial(average, group=group)
            output, mean, var = over_processes.conv_block_over(averages, input, weight, gamma, beta, self.norm.eps)
        else:
            convolved = conv2d(input, weight, None, 1, 1, tf32=self.conv.tf32)
            return max_pool2d(self.norm.by_batch(convolved, bias, count), 2, relu=True)
        update = self.update(input, mean, var)
        if updates is None:
            update_running([update])
        else:
            updates.append(update)
        return output

    def update(self, input: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> Update:
        """The change of the running statistics by a batch, which is divided between the processes of the group."""
        bias, group = self.conv.bias, self.norm.statistics_over
        count = input.numel() // max(1, input.shape[1]) * (1 if group is None else group.size())
        return Update(self.norm, mean.detach(), var.detach(), None if bias is None else bias.detach(), count)


class Sequential(torch.nn.Sequential):
    """``torch.nn.Sequential`` that updates the running statistics of its ``ConvBlock`` together, in one launch.

    In a step that ``nn.compile_step`` captures, the launch is beside the other kernels of the step.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        updates: list[Update] = []
        input = self.with_updates(input, updates)
        if updates:
            aside(lambda: update_running(updates), updates)
        return input

    def with_updates(self, input: torch.Tensor, updates: list[Update]) -> torch.Tensor:
        """The output; the updates of running statistics are appended to ``updates`` for the caller."""
        for module in self:
            own = isinstance(module, ConvBlock) and type(module).forward is ConvBlock.forward
            input = module(input, updates) if own else module(input)
        return input


def prepare(model: torch.nn.Module, input: torch.Tensor) -> None:
    """Call ``prepare`` of the first layer of ``model`` if it is a ``ConvBlock``."""
    while isinstance(model, torch.nn.Sequential) and len(model):
        model = model[0]
    if isinstance(model, ConvBlock):
        model.prepare(input)
