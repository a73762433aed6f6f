"""Drop-in replacements for optimizers of ``torch.optim``, built on ``warpwise.ops``."""

from warpwise.optim.sgd import SGD

__all__ = ["SGD"]
