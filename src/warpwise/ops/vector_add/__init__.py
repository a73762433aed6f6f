"""Element-wise sum of two vectors: the smallest kernel that moves memory."""

from warpwise.ops.vector_add.op import vector_add

__all__ = ["vector_add"]
