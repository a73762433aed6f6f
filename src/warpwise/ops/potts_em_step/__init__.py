"""One iteration of mean-field EM of a mixture whose labels form a Markov random field on a graph."""

from warpwise.ops.potts_em_step.op import potts_em_step

__all__ = ["potts_em_step"]
