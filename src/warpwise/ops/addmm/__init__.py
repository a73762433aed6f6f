"""beta * C + alpha * A B: a matrix product added to what is there, scaled."""

from warpwise.ops.addmm.op import addmm

__all__ = ["addmm"]
