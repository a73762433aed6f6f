"""Sums and counts of points by label: the update step of k-means."""

from warpwise.ops.kmeans_update.op import kmeans_update

__all__ = ["kmeans_update"]
