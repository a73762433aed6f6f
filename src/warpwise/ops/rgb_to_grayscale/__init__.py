"""Colour images to grayscale: three loads, one store, and two ways for pixels to lie in memory."""

from warpwise.ops.rgb_to_grayscale.op import rgb_to_grayscale

__all__ = ["rgb_to_grayscale"]
