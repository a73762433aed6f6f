"""The three gradients of a linear layer in one launch."""

from warpwise.ops.linear_backward.op import linear_backward

__all__ = ["linear_backward"]
