"""A package with a custom operation for Warpwise: ``from mypackage import silu_mul``."""

from mypackage.silu_mul import silu_mul

__all__ = ["silu_mul"]
