"""Gibbs sampling of labels with a Potts prior on a graph, one colour of the graph after another."""

from warpwise.ops.gibbs_sweep.op import gibbs_sweep

__all__ = ["gibbs_sweep"]
