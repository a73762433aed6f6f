"""Averages over the neighbours of each point of a graph."""

from warpwise.ops.smooth_features.op import smooth_features

__all__ = ["smooth_features"]
