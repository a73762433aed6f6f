"""Batch normalisation by the statistics of the batch, its backward, and the update of running statistics."""

from warpwise.ops.batch_norm.op import batch_norm, batch_norm_backward, layer_statistics, running_statistics

__all__ = ["batch_norm", "batch_norm_backward", "layer_statistics", "running_statistics"]
