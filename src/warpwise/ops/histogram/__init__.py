"""How often each value occurs: what to do when everybody wants to write the same few words."""

from warpwise.ops.histogram.op import histogram

__all__ = ["histogram"]
