"""The cross-entropy loss as a module."""

from __future__ import annotations

import torch

from warpwise.ops.cross_entropy.op import cross_entropy


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """``torch.nn.CrossEntropyLoss`` computed by ``ops.cross_entropy``: the same constructor.

    PyTorch computes the loss with class weights, label smoothing, targets that are probabilities, inputs that are not
    (N, C), or a reduction other than the mean.
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        plain = self.weight is None and self.reduction == "mean" and not self.label_smoothing
        if not plain or input.dim() != 2 or target.dtype != torch.int64:
            return super().forward(input, target)
        return cross_entropy(input, target, self.ignore_index)
