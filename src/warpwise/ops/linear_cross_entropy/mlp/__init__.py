"""The specification and the ladder of mlp_cross_entropy_gradients."""
