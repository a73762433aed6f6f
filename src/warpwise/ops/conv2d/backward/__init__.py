"""The ladder of conv2d_backward."""
