"""The sum of all elements or along one dimension: the classic ladder of a reduction."""

from warpwise.ops.reduce_sum.op import reduce_sum

__all__ = ["reduce_sum"]
