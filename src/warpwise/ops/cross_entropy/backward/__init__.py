"""The ladder of cross_entropy_backward."""
