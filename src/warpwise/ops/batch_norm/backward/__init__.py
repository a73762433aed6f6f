"""The ladder of batch_norm_backward."""
