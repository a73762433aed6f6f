"""The product of two fp8 matrices with scales: twice the arithmetic of bfloat16, and what it costs in exactness."""

from warpwise.ops.scaled_matmul.op import scaled_matmul

__all__ = ["scaled_matmul"]
