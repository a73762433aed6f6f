"""A linear layer with its bias, activation, scale and residual in one kernel, and its backward."""

from warpwise.ops.linear.op import activation_backward, linear

__all__ = ["activation_backward", "linear"]
