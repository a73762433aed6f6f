"""The ladder of linear_cross_entropy."""
