"""Element-wise square."""

from warpwise.ops.square.op import square

__all__ = ["square"]
