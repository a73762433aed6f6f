"""The nearest centroid of each point: the assignment step of k-means."""

from warpwise.ops.kmeans_assign.op import kmeans_assign

__all__ = ["kmeans_assign"]
