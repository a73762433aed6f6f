"""Batch normalisation by the statistics of a batch that is divided between several processes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from warpwise.nn import peers


class _Sum(torch.autograd.Function):
    """The sum of a tensor over all processes. Its gradient is the sum of the gradients of all processes."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
        context.group = group
        total = tensor.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        total = grad.contiguous().clone()
        dist.all_reduce(total, group=context.group)
        return total, None


def reduction(group: ProcessGroup | None) -> Any:
    """The all-reduce with which ``average`` begins: NCCL averages, gloo adds."""
    return dist.ReduceOp.AVG if dist.get_backend(group) == "nccl" else dist.ReduceOp.SUM


def averaged(tensor: torch.Tensor, group: ProcessGroup | None) -> torch.Tensor:
    """``tensor``, the result of the all-reduce ``reduction(group)``, replaced by the average."""
    added = reduction(group) == dist.ReduceOp.SUM
    return tensor.div_(dist.get_world_size(group)) if added else tensor


def average(tensor: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
    """Replace ``tensor`` by its average over all processes, and return it."""
    if peers.average(tensor, group):
        return tensor
    dist.all_reduce(tensor, reduction(group), group)
    return averaged(tensor, group)


def batch_norm_over(
    group: ProcessGroup, input: torch.Tensor, gamma: torch.Tensor | None, beta: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Batch normalisation of ``input`` (N, C, H, W) by the statistics of the inputs of all processes.

    The inputs have equal shapes. Returns the output, the mean (C,), and the biased variance (C,).
    """
    var, mean = torch.var_mean(input.float(), (0, 2, 3), correction=0)
    mean, var = mean.double(), var.double()  # E[x^2] - E[x]^2 loses its digits in float32
    mean, square = _Sum.apply(torch.stack([mean, var + mean.square()]), group) / dist.get_world_size(group)
    var = (square - mean.square()).clamp_min(0)
    scale = torch.rsqrt(var + eps).float()
    if gamma is not None:
        scale = scale * gamma
    normal = (input - _channels(mean.to(input.dtype))) * _channels(scale)
    if beta is not None:
        normal = normal + _channels(beta)
    return normal.to(input.dtype), mean.to(scale.dtype), var.to(scale.dtype)


def _channels(values: torch.Tensor) -> torch.Tensor:
    return values.view(-1, 1, 1)
