"""Products of two batches of matrices: from a thread an element to boxes that the copy engine fetches."""

from warpwise.ops.batched_matmul.op import batched_matmul

__all__ = ["batched_matmul"]
