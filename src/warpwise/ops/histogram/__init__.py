"""How often each value occurs: atomics under contention."""

from warpwise.ops.histogram.op import histogram

__all__ = ["histogram"]
