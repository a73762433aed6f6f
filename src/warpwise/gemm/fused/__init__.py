"""Matrix multiplications with an epilogue: the kernels that linear and addmm share."""

from __future__ import annotations

ACTIVATIONS = ("relu", "gelu", "gelu_tanh")  # gelu by the error function, gelu_tanh its approximation by tanh


def activation_number(activation: str | None) -> int:
    """The number of an activation in ``core/activation.cuh``; 0 for none."""
    return ACTIVATIONS.index(activation) + 1 if activation else 0
