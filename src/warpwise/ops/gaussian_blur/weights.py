"""The weights of a Gaussian window.

Floating point: exp(-d² / 2σ²), normalised to a sum of 1. For uint8 images the weights are integers, in units of 2^-12,
with a sum of exactly 2^12, and the blur is exact integer arithmetic: the sum of a window is at most 255 · 2^24, which
fits in 32 unsigned bits, so the result does not depend on the order of summation. It is rounded to nearest, ties up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch

FIXED_BITS = 12


def window(taps: int, sigma: float) -> list[float]:
    """``taps`` weights with a sum of 1."""
    raw = [math.exp(-0.5 * ((k - taps // 2) / sigma) ** 2) for k in range(taps)]
    total = math.fsum(raw)
    return [value / total for value in raw]


def fixed_window(taps: int, sigma: float) -> list[int]:
    """``taps`` weights with a sum of 2^12; the remainder of the rounding is added to the middle one."""
    rounded = [round(value * 2**FIXED_BITS) for value in window(taps, sigma)]
    rounded[taps // 2] += 2**FIXED_BITS - sum(rounded)
    return rounded


def computed(dtype: torch.dtype) -> torch.dtype:
    """The dtype of weights and intermediates for images of ``dtype``."""
    if dtype == torch.uint8:
        return torch.int32
    return torch.float64 if dtype == torch.float64 else torch.float32


def windows(kernel_size: Sequence[int], sigma: Sequence[float], dtype: torch.dtype) -> tuple[list[float], list[float]]:
    """Horizontal and vertical weights for images of ``dtype``."""
    make = fixed_window if dtype == torch.uint8 else window
    x, y = (list[float](make(taps, width)) for taps, width in zip(kernel_size, sigma, strict=True))
    return x, y


@functools.lru_cache(maxsize=64)
def _tensors(
    kernel_size: tuple[int, ...], sigma: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = windows(kernel_size, sigma, dtype)
    return torch.tensor(x, dtype=computed(dtype), device=device), torch.tensor(y, dtype=computed(dtype), device=device)


def tensors(
    image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Horizontal and vertical weights on the device of the image; cached by kernel size, sigma, dtype and device."""
    return _tensors(tuple(kernel_size), tuple(sigma), image.dtype, image.device)
