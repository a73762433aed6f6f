"""A two-dimensional convolution of images, and its backward."""

from warpwise.ops.conv2d.op import conv2d, conv2d_backward

__all__ = ["conv2d", "conv2d_backward"]
