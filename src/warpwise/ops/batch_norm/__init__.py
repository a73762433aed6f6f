"""Batch normalisation by the statistics of the batch, and its backward."""

from warpwise.ops.batch_norm.op import batch_norm, batch_norm_backward

__all__ = ["batch_norm", "batch_norm_backward"]
