"""The product of two matrices: from three loops in Python to Hopper's warp-specialised kernels."""

from warpwise.ops.matmul.op import MATMUL as MATMUL
from warpwise.ops.matmul.op import matmul

__all__ = ["matmul"]
