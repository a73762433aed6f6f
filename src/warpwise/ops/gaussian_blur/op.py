"""The public functions gaussian_blur and gaussian_blur_backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from warpwise.arguments.checks import check_integers
from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.gaussian_blur.backward.rungs import RUNGS as BACKWARD_RUNGS
from warpwise.ops.gaussian_blur.backward.rungs import default as backward_default
from warpwise.ops.gaussian_blur.forward.rungs import RUNGS, default
from warpwise.ops.gaussian_blur.spec import BACKWARD, SPEC


def _double_backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor]:
    """The blur is linear, so the adjoint of the adjoint is the blur."""
    return {"grad_output": _gaussian_blur(grad, saved.kernel_size, saved.sigma)}


_DOUBLE_BACKWARD = Gradient(_double_backward, saves=("kernel_size", "sigma"))
GAUSSIAN_BLUR_BACKWARD = register(Op(replace(BACKWARD, gradient=_DOUBLE_BACKWARD), BACKWARD_RUNGS, backward_default))
GAUSSIAN_BLUR = register(Op(replace(SPEC, gradient=Gradient(GAUSSIAN_BLUR_BACKWARD)), RUNGS, default))
_gaussian_blur = GAUSSIAN_BLUR.call
_gaussian_blur_backward = GAUSSIAN_BLUR_BACKWARD.call


def _pairs(
    op: str, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None
) -> tuple[list[int], list[float]]:
    """Both as (horizontal, vertical); the default sigma is 0.15 taps + 0.35, as in OpenCV and torchvision."""
    sizes = list(kernel_size) if isinstance(kernel_size, Sequence) else [kernel_size, kernel_size]
    if sigma is None:
        check_integers(op, "kernel_size", sizes, 2)
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
    """Blur an image (C, H, W) or a batch (N, C, H, W) with a Gaussian window and reflected borders.

    ``kernel_size`` is the number of taps, odd, one number or (horizontal, vertical); ``sigma`` is in pixels, one number
    or two, by default 0.15 taps + 0.35: the arguments of torchvision.transforms.functional.gaussian_blur.

    ``image`` is uint8, float16, bfloat16, float32 or float64; the result has its shape and dtype. Floating point is
    summed in float32 or wider and is differentiable any number of times. uint8 is blurred in exact fixed point, with
    weights in units of 2^-12, and rounded to nearest. ``rung`` names one kernel of the ladder. Raises ``TypeError`` for
    another dtype or kind of argument, and ``ValueError`` for a ``kernel_size`` that is even, negative, or too large to
    be reflected at the borders of the image, or a ``sigma`` that is not above 0.
    """
    return _gaussian_blur(image, *_pairs("gaussian_blur", kernel_size, sigma), rung=rung)


def gaussian_blur_backward(
    grad_output: torch.Tensor,
    kernel_size: int | Sequence[int],
    sigma: float | Sequence[float] | None = None,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """The gradient of ``gaussian_blur`` with respect to its image: the adjoint blur, of the same shape, linear.

    ``grad_output`` is floating point, (C, H, W) or (N, C, H, W); the other arguments and the errors are those of
    ``gaussian_blur``. Differentiable any number of times. ``rung`` names one kernel of the ladder.
    """
    pairs = _pairs("gaussian_blur_backward", kernel_size, sigma)
    return _gaussian_blur_backward(grad_output, *pairs, rung=rung)
