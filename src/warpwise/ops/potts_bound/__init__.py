"""The prior's and the entropy's part of the evidence lower bound of mean-field EM on a graph."""

from warpwise.ops.potts_bound.op import potts_bound

__all__ = ["potts_bound"]
