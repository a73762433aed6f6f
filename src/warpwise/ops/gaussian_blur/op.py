"""The public functions gaussian_blur and gaussian_blur_backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.gaussian_blur.rungs import BACKWARD_RUNGS, RUNGS, backward_default, default
from warpwise.ops.gaussian_blur.spec import BACKWARD, SPEC
from warpwise.registry import Op, register

GAUSSIAN_BLUR = register(Op(SPEC, RUNGS, default))
GAUSSIAN_BLUR_BACKWARD = register(Op(BACKWARD, BACKWARD_RUNGS, backward_default))


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, ctx.kernel_size, ctx.sigma = inputs


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
    return _gaussian_blur_backward(grad, ctx.kernel_size, ctx.sigma), None, None


def _backward_backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, None, None]:
    """Blurring is linear, so the adjoint of the adjoint is the blur."""
    return _gaussian_blur(upstream, ctx.kernel_size, ctx.sigma), None, None


_gaussian_blur = public(GAUSSIAN_BLUR, "(Tensor image, int[] kernel_size, float[] sigma) -> Tensor", _backward, _save)
_gaussian_blur_backward = public(
    GAUSSIAN_BLUR_BACKWARD, "(Tensor grad, int[] kernel_size, float[] sigma) -> Tensor", _backward_backward, _save
)


def _pairs(kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None) -> tuple[list[int], list[float]]:
    """Both as (horizontal, vertical); the default sigma is 0.15 taps + 0.35, OpenCV's and torchvision's."""
    sizes = list(kernel_size) if isinstance(kernel_size, Sequence) else [kernel_size, kernel_size]
    if sigma is None:
        return sizes, [0.15 * taps + 0.35 for taps in sizes]
    widths = list(sigma) if isinstance(sigma, Sequence) else [sigma, sigma]
    return sizes, [float(width) if isinstance(width, int) else width for width in widths]


def gaussian_blur(
    image: torch.Tensor,
    kernel_size: int | Sequence[int],
    sigma: float | Sequence[float] | None = None,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """Blur an image (C, H, W) or a batch (N, C, H, W) with a Gaussian window, borders reflected; the shape stays.

    ``kernel_size`` counts taps, odd, one number or (horizontal, vertical); ``sigma`` is in pixels, likewise, and
    0.15 taps + 0.35 unless given: the arguments of torchvision.transforms.functional.gaussian_blur.

    ``image`` is uint8, float16, bfloat16, float32 or float64. Floating point is summed in float32 at least and is
    differentiable any number of times. uint8 is blurred in exact fixed point, with weights in units of 2^-12, and
    rounded to nearest. Raises ``TypeError`` for another dtype or kind of argument, ``ValueError`` for an even or
    negative ``kernel_size``, one with more taps on a side than the image can reflect, or a ``sigma`` not above 0.
    ``rung`` asks for one kernel of the ladder by name.
    """
    return _gaussian_blur(image, *_pairs(kernel_size, sigma), rung=rung)


def gaussian_blur_backward(
    grad: torch.Tensor,
    kernel_size: int | Sequence[int],
    sigma: float | Sequence[float] | None = None,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """The gradient of ``gaussian_blur`` by its image, given that by its result: the adjoint blur, same shape, linear.

    Takes floating-point ``grad`` of shape (C, H, W) or (N, C, H, W) and the other arguments of ``gaussian_blur``, and
    raises the same errors. ``rung`` asks for one kernel by name.
    """
    return _gaussian_blur_backward(grad, *_pairs(kernel_size, sigma), rung=rung)
