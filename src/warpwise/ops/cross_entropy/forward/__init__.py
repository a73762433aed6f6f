"""The ladder of cross_entropy."""
