"""Element-wise sum of two matrices: which thread takes which element decides the speed."""

from warpwise.ops.matrix_add.op import matrix_add

__all__ = ["matrix_add"]
