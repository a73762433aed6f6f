"""Drop-in modules for those of ``torch.nn``, built on ``warpwise.ops``: same parameters, names and initialization."""

from warpwise.nn.linear import Linear

__all__ = ["Linear"]
