"""A linear layer and the mean cross-entropy of its output in one operation, its backward, and both in one."""

from warpwise.ops.linear_cross_entropy.op import (
    linear_cross_entropy,
    linear_cross_entropy_backward,
    linear_cross_entropy_gradients,
    mlp_cross_entropy_gradients,
)

__all__ = [
    "linear_cross_entropy", "linear_cross_entropy_backward", "linear_cross_entropy_gradients",
    "mlp_cross_entropy_gradients",
]  # fmt: skip
