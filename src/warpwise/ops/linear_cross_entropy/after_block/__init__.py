"""The specification and the ladder of block_cross_entropy_gradients."""
