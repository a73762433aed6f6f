"""The ladder of avg_pool2d_backward."""
