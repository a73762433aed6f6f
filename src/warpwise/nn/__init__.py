"""Modules on ``warpwise.ops``, drop-in for those of ``torch.nn``: parameters, their names and their first values are the same."""

from warpwise.nn.linear import Linear

__all__ = ["Linear"]
