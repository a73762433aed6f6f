"""The mean cross-entropy of logits against class indices, and its backward."""

from warpwise.ops.cross_entropy.op import cross_entropy, cross_entropy_backward

__all__ = ["cross_entropy", "cross_entropy_backward"]
