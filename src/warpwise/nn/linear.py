"""A linear layer as a module."""

from __future__ import annotations

import torch

from warpwise.ops.linear.op import linear
from warpwise.ops.linear.spec import check_activation


class Linear(torch.nn.Linear):
    """``torch.nn.Linear`` with an optional ``activation``, computed by one kernel: activation(x W^T + b).

    The input is (..., in_features), the output (..., out_features); ``weight`` is (out_features, in_features) and
    ``bias`` (out_features,), or None. ``activation`` is None, "relu", "gelu" (by the error function) or "gelu_tanh".
    Parameters, their names and their initialisation are those of torch.nn.Linear, and a state_dict of either loads into
    the other. Under autocast it computes in the autocast dtype. Raises ``ValueError`` for another activation, and the
    errors of ``ops.linear`` for a wrong input.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str | None = None,
    ) -> None:
        check_activation("Linear", activation, None)
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation

    def forward(
        self, input: torch.Tensor, residual: torch.Tensor | None = None, row_scale: torch.Tensor | None = None
    ) -> torch.Tensor:
        """activation(row_scale * (input W^T) + bias) + residual; ``row_scale`` and ``residual`` are optional."""
        return linear(input, self.weight, self.bias, self.activation, residual, row_scale)

    def extra_repr(self) -> str:
        plain = super().extra_repr()
        return plain if self.activation is None else f"{plain}, activation={self.activation!r}"
