"""A linear layer and the mean cross-entropy of its output in one operation, its backward, and both in one."""

from warpwise.ops.linear_cross_entropy.op import (
    block_cross_entropy_gradients,
    linear_cross_entropy,
    linear_cross_entropy_backward,
    linear_cross_entropy_gradients,
)

__all__ = [
    "block_cross_entropy_gradients",
    "linear_cross_entropy",
    "linear_cross_entropy_backward",
    "linear_cross_entropy_gradients",
]
