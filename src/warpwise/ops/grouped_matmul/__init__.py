"""Groups of rows times a matrix for each group, and the gradient of the matrices: the experts of a mixture."""

from warpwise.ops.grouped_matmul.op import grouped_matmul, grouped_matmul_backward

__all__ = ["grouped_matmul", "grouped_matmul_backward"]
