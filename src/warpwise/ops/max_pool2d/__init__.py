"""The maximum of each window of images, and its backward."""

from warpwise.ops.max_pool2d.op import max_pool2d, max_pool2d_backward

__all__ = ["max_pool2d", "max_pool2d_backward"]
