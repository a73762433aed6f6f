"""Gaussian blur of images and its adjoint: separability, halos, and weights where they are cheapest to read."""

from warpwise.ops.gaussian_blur.op import gaussian_blur, gaussian_blur_backward

__all__ = ["gaussian_blur", "gaussian_blur_backward"]
