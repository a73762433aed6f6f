"""The public function rgb_to_grayscale."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.rgb_to_grayscale.rungs import RUNGS, default
from warpwise.ops.rgb_to_grayscale.spec import SPEC

RGB_TO_GRAYSCALE = register(Op(SPEC, RUNGS, default))
_rgb_to_grayscale = RGB_TO_GRAYSCALE.call


def rgb_to_grayscale(image: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``0.2989 R + 0.587 G + 0.114 B`` of an image (3, H, W) or (N, 3, H, W); the result has one channel.

    ``image`` is uint8, float16, bfloat16, float32 or float64. uint8 is rounded to nearest, ties up; floating point is
    computed in float32 or wider, is not clamped, and is differentiable. Any strides are read in place: for an array
    (H, W, 3) from an image decoder pass ``array.permute(2, 0, 1)``. ``rung`` names one kernel of the ladder. Raises
    ``TypeError`` for another dtype and ``ValueError`` for another shape.
    Weights: ITU-R BT.601, as in torchvision.transforms.functional.rgb_to_grayscale.
    """
    return _rgb_to_grayscale(image, rung)
