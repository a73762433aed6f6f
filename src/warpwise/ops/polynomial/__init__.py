"""x² + x + 1 and its derivative: what fusion saves, and how a kernel gets a gradient."""

from warpwise.ops.polynomial.op import polynomial, polynomial_backward

__all__ = ["polynomial", "polynomial_backward"]
