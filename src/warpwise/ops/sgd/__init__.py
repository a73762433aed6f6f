"""A step of stochastic gradient descent over a list of parameters, in place."""

from warpwise.ops.sgd.op import sgd

__all__ = ["sgd"]
