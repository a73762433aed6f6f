"""The sums of the absolute values of the terms of the block's outputs and gradients: the scale of rounding errors."""

from __future__ import annotations

import torch
from torch.nn import functional

AXES = [0, 2, 3]
Optional = torch.Tensor | None


def _wide(channel: torch.Tensor) -> torch.Tensor:
    return channel.view(1, -1, 1, 1)


class Magnitudes:
    """The magnitudes in float64 for the arguments of the forward."""

    def __init__(
        self,
        input: torch.Tensor,
        weight: torch.Tensor,
        gamma: torch.Tensor,
        beta: torch.Tensor,
        eps: float,
    ) -> None:
        self.x, self.w = input.double().abs(), weight.double().abs()
        self.gamma, self.beta = gamma.double(), beta.double()
        self.convolved = functional.conv2d(self.x, self.w, padding=1)
        self.y = functional.conv2d(input.double(), weight.double(), padding=1)
        self.count = max(1, self.y.numel() // max(1, self.y.shape[1]))
        if not self.y.numel():
            return
        self.typical = self.convolved.mean(AXES)
        centred = self.y - _wide(self.y.mean(AXES))
        rstd = (centred.square().mean(AXES) + eps).rsqrt()
        self.h = centred * _wide(rstd)
        # Half the relative error of the variance is a relative error of every normalised value.
        self.rstd = rstd
        self.spread = (self.convolved + _wide(self.typical)) * _wide(rstd)
        self.spread = self.spread + self.h.abs() * _wide(self.var() * rstd.square() / 2)

    def mean(self) -> torch.Tensor:
        return self.typical if self.y.numel() else torch.zeros_like(self.gamma)

    def var(self) -> torch.Tensor:
        """The mean of 2 |y - mean| times the errors of y and of the mean."""
        if not self.y.numel():
            return torch.zeros_like(self.gamma)
        centred = (self.y - _wide(self.y.mean(AXES))).abs()
        return 2 * (centred * (self.convolved + _wide(self.typical))).mean(AXES)

    def output(self) -> torch.Tensor:
        if not self.y.numel():
            n, k, h, w = self.y.shape
            return self.y.new_zeros((n, k, h // 2, w // 2))
        return functional.max_pool2d(self.spread * _wide(self.gamma.abs()) + _wide(self.beta.abs()), 2)

    def gradients(self, dy: Optional, dmean: Optional, dvar: Optional, dconv: Optional) -> tuple[torch.Tensor, ...]:
        """The magnitudes for input, weight, gamma and beta."""
        if not self.y.numel():
            return self.x, self.w, self.gamma.abs(), self.beta.abs()
        g = torch.zeros_like(self.y)
        if dy is not None:
            normal = functional.relu(self.h * _wide(self.gamma) + _wide(self.beta))
            _, at = functional.max_pool2d(normal, 2, return_indices=True)
            g = g.flatten(2).scatter(2, at.flatten(2), dy.double().abs().flatten(2)).view_as(g)
        d = g + _wide(g.mean(AXES)) + self.spread * _wide((g * self.spread).mean(AXES))
        d = d * _wide(self.rstd * self.gamma.abs())
        for grad, factor in ((dmean, torch.ones_like(d)), (dvar, 2 * (self.convolved + _wide(self.typical)))):
            if grad is not None:
                d = d + _wide(grad.double().abs()) * factor / self.count
        d = d if dconv is None else d + dconv.double().abs()
        dx, dw, _ = torch.ops.aten.convolution_backward(
            d, self.x, self.w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False]
        )
        return dx, dw, (g * self.spread).sum(AXES), g.sum(AXES)
