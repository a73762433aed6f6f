"""Softmax along one dimension and its backward: a memory-bound row operation, twice differentiable."""

from warpwise.ops.softmax.op import softmax, softmax_backward

__all__ = ["softmax", "softmax_backward"]
