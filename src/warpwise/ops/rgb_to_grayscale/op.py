"""The public function rgb_to_grayscale."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.rgb_to_grayscale.rungs import RUNGS, default
from warpwise.ops.rgb_to_grayscale.spec import SPEC, WEIGHTS
from warpwise.registry import Op, register

RGB_TO_GRAYSCALE = register(Op(SPEC, RUNGS, default))


def _backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    """Each channel gets the gradient times its weight; (..., 1, H, W) -> (..., 3, H, W)."""
    return grad * grad.new_tensor(WEIGHTS).view(3, 1, 1)


_rgb_to_grayscale = public(RGB_TO_GRAYSCALE, "(Tensor image) -> Tensor", _backward)


def rgb_to_grayscale(image: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``0.2989 R + 0.587 G + 0.114 B`` of an image (3, H, W) or (N, 3, H, W); the result has 1 channel instead of 3.

    ``image`` is uint8, float16, bfloat16, float32 or float64. uint8 is rounded to nearest, ties up; floating point is
    computed in float32 at least, is not clamped, and is differentiable. Any strides are taken as they are: for an array
    (H, W, 3) from an image decoder pass ``array.permute(2, 0, 1)``, which copies nothing. Raises ``TypeError`` for
    another dtype and ``ValueError`` for another shape. ``rung`` asks for one kernel of the ladder by name.
    Weights: ITU-R BT.601, as in torchvision.transforms.functional.rgb_to_grayscale.
    """
    return _rgb_to_grayscale(image, rung=rung)
