"""A linear layer and the mean cross-entropy of its output in one operation, and its backward."""

from warpwise.ops.linear_cross_entropy.op import linear_cross_entropy, linear_cross_entropy_backward

__all__ = ["linear_cross_entropy", "linear_cross_entropy_backward"]
