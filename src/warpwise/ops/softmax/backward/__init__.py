"""The ladder of softmax_backward."""
