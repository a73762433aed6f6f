"""The product of two matrices: from three loops in Python to a tile for each warp."""

from warpwise.ops.matmul.op import chosen as chosen
from warpwise.ops.matmul.op import matmul

__all__ = ["matmul"]
