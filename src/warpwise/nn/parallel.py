"""Data-parallel training through torch.distributed: the same step on several processes, each with a part of the batch.

Gradients are averaged in buckets. The all-reduce of a bucket starts when its last gradient is computed, while the
backward computes the earlier layers. Batch normalisation uses the statistics of the whole batch, so that the losses are
those of one process with the same global batch, up to the order of sums.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup, Work

from warpwise.nn import peers
from warpwise.nn.batch_statistics import averaged, reduction
from warpwise.nn.convolution import BatchNorm2d

BUCKET = 1 << 19  # minimum bytes of gradients in one all-reduce


class DataParallel:
    """Keeps the parameters of ``model`` equal on all processes of ``group``, which is all processes by default.

    Every process creates the model, the optimizer and one ``DataParallel``, and then trains with batches of the same
    size. Parameters and buffers are copied from the first process. ``optimizer.step`` waits for the averaged gradients.
    There must be one backward per step, which computes gradients of the same parameters on each process.

    >>> model, optimizer = network(), warpwise.optim.SGD(...)
    >>> warpwise.nn.DataParallel(model, optimizer)
    >>> step = warpwise.nn.compile_step(model, loss, optimizer)
    """

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, group: ProcessGroup | None = None
    ) -> None:
        self.group = group
        source = dist.get_global_rank(group, 0) if group is not None else 0
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.detach(), source, group)
        for module in model.modules():
            if isinstance(module, BatchNorm2d):
                module.statistics_over = group or dist.group.WORLD
        # The backward computes the last layer's gradients first.
        params = [param for param in reversed(list(model.parameters())) if param.requires_grad]
        self.buckets = [_Bucket(part, group) for part in _divided(params)]
        for bucket in self.buckets:
            for param in bucket.params:
                param.register_post_accumulate_grad_hook(bucket.computed)
        optimizer.register_step_pre_hook(self._wait)

    def _wait(self, *args: Any) -> None:
        """Replace the gradients by their averages."""
        for bucket in self.buckets:
            bucket.start()  # not started yet if a parameter of the bucket has no gradient
        for bucket in self.buckets:
            bucket.finish()


def _divided(params: list[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    """Neighbouring parameters of one dtype and device, at least ``BUCKET`` bytes together."""
    parts: list[list[torch.nn.Parameter]] = []
    for param in params:
        last = parts[-1] if parts else []
        full = sum(each.numel() * each.element_size() for each in last) >= BUCKET
        if last and not full and (param.dtype, param.device) == (last[0].dtype, last[0].device):
            last.append(param)
        else:
            parts.append([param])
    return parts


class _Bucket:
    """Gradients that are averaged together."""

    def __init__(self, params: list[torch.nn.Parameter], group: ProcessGroup | None) -> None:
        self.params, self.group = params, group
        self.ready = 0
        self.sent: list[torch.nn.Parameter] = []  # parameters whose gradients are in the all-reduce
        self.sums: torch.Tensor | None = None
        self.work: Work | None = None

    def computed(self, param: torch.Tensor) -> None:
        """Count a computed gradient; start the all-reduce when all gradients of the bucket are computed."""
        self.ready += 1
        if self.ready == len(self.params):
            self.start()

    def start(self) -> None:
        """Start the all-reduce of the gradients if it has not been started."""
        self.sent = [param for param in self.params if param.grad is not None]
        if self.sums is None and self.sent:
            self.sums = torch.cat([param.grad.reshape(-1) for param in self.sent if param.grad is not None])
            if not peers.average(self.sums, self.group):
                self.work = dist.all_reduce(self.sums, reduction(self.group), self.group, async_op=True)

    def finish(self) -> None:
        """Wait for the all-reduce, and set each gradient to its part of the averaged bucket."""
        if self.sums is not None:
            average = self.sums
            if self.work is not None:
                self.work.wait()
                average = averaged(self.sums, self.group)
            for param, part in zip(self.sent, average.split([param.numel() for param in self.sent]), strict=True):
                param.grad = part.view_as(param)
        self.ready, self.work, self.sums = 0, None, None
