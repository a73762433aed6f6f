"""The specification and the ladder of linear_cross_entropy_gradients."""
