"""The ladder of max_pool2d_backward."""
