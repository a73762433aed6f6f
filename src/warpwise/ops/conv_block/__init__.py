"""Convolution 3 x 3, batch normalisation, relu and max pooling by 2 as one operation, and its backward."""

from warpwise.ops.conv_block.op import conv_block, conv_block_backward

__all__ = ["conv_block", "conv_block_backward"]
