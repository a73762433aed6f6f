"""An operation for Warpwise in a package of its own: ``from mypackage import silu_mul``."""

from mypackage.silu_mul import silu_mul

__all__ = ["silu_mul"]
