"""The ladder of polynomial_backward."""
