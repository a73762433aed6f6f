"""The product of a matrix and a vector: how fast a matrix can be read, in either order."""

from warpwise.ops.matvec.op import matvec

__all__ = ["matvec"]
