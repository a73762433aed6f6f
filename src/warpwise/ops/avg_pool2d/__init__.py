"""The mean of each window of images, and its backward."""

from warpwise.ops.avg_pool2d.op import avg_pool2d, avg_pool2d_backward

__all__ = ["avg_pool2d", "avg_pool2d_backward"]
