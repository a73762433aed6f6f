"""Grayscale of an RGB image: what it is, knowing no kernel.

gray = 0.2989 red + 0.587 green + 0.114 blue, the weights of torchvision's rgb_to_grayscale (ITU-R BT.601 luma).
Of uint8 pixels the sum is rounded to the nearest integer, ties up, exactly: (2989 r + 5870 g + 1140 b + 5000) div
10000. White stays white that way; truncation, as torchvision has it, makes 254 of it because the weights sum to 0.9999.
"""

from __future__ import annotations

import torch

from warpwise.ops._common import FLOATS, check_tensor, draw
from warpwise.registry import Case, Cost, Spec

DTYPES = (torch.uint8, *FLOATS)
WEIGHTS = (0.2989, 0.587, 0.114)
# A sum that is not a tie is 1e-4 or more away from one, and float32 errs by less than 6e-5: this sends up ties alone.
HALF_UP = 0.50004


def check(image: torch.Tensor) -> None:
    check_tensor("rgb_to_grayscale", "image", image, DTYPES, dims=(3, 4))
    if image.size(-3) != 3:
        shape = tuple(image.shape)
        raise ValueError(f"rgb_to_grayscale: expected image of shape (3, H, W) or (N, 3, H, W), got {shape}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> tuple[torch.Tensor]:
    """``image`` (N, 3, H, W); with ``channels_last`` its pixels are interleaved in memory, as decoders deliver them."""
    n, height, width = case.sizes["n"], case.sizes["height"], case.sizes["width"]
    if case.sizes.get("channels_last"):
        return (draw(case, (n, height, width, 3), dtype, device, seed).permute(0, 3, 1, 2),)
    return (draw(case, (n, 3, height, width), dtype, device, seed),)


def outputs(image: torch.Tensor) -> torch.Tensor:
    return image.new_empty((*image.shape[:-3], 1, *image.shape[-2:]))


def reference(image: torch.Tensor) -> torch.Tensor:
    if image.dtype == torch.uint8:
        red, green, blue = image.long().unbind(-3)
        return ((2989 * red + 5870 * green + 1140 * blue + 5000) // 10000).unsqueeze(-3)
    red, green, blue = image.double().unbind(-3)
    return (WEIGHTS[0] * red + WEIGHTS[1] * green + WEIGHTS[2] * blue).unsqueeze(-3)


def eager(image: torch.Tensor) -> torch.Tensor:
    computed = image if image.dtype == torch.float64 else image.float()
    red, green, blue = computed.unbind(-3)
    gray = red.mul(WEIGHTS[0]).add_(green, alpha=WEIGHTS[1]).add_(blue, alpha=WEIGHTS[2])
    if image.dtype == torch.uint8:
        gray.add_(HALF_UP)
    return gray.unsqueeze(-3).to(image.dtype).contiguous()


def magnitude(image: torch.Tensor) -> torch.Tensor:
    return reference(image.abs())


def cost(image: torch.Tensor) -> Cost:
    pixels = image.numel() // 3
    return Cost(bytes=4 * pixels * image.element_size(), flops=5 * pixels)


SPEC = Spec(
    name="rgb_to_grayscale",
    summary="0.2989 R + 0.587 G + 0.114 B over images (3, H, W) or (N, 3, H, W)",
    inputs=inputs,
    check=check,
    outputs=outputs,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("image", {"n": 1, "height": 16, "width": 64}),
        Case("batch", {"n": 3, "height": 8, "width": 32}),
        Case("ragged", {"n": 2, "height": 13, "width": 37}),
        Case("interleaved", {"n": 1, "height": 16, "width": 48, "channels_last": 1}),
        Case("interleaved_ragged", {"n": 2, "height": 13, "width": 37, "channels_last": 1}),
        Case("one_element", {"n": 1, "height": 1, "width": 1}),
        Case("empty", {"n": 0, "height": 4, "width": 4}),
        Case("huge", {"n": 1, "height": 5, "width": 33}, values="huge"),
        Case("strided", {"n": 2, "height": 7, "width": 19}, layout="strided"),
        Case("unaligned", {"n": 1, "height": 8, "width": 32}, layout="unaligned"),
        Case("interleaved_unaligned", {"n": 1, "height": 8, "width": 32, "channels_last": 1}, layout="unaligned"),
    ),
    sizes=(
        Case("batch", {"n": 16, "height": 4096, "width": 4096}),
        Case("batch_interleaved", {"n": 16, "height": 4096, "width": 4096, "channels_last": 1}),
        Case("image", {"n": 1, "height": 4096, "width": 4096}),
        Case("ragged", {"n": 16, "height": 2047, "width": 2049}),
    ),
    dtypes=DTYPES,
    terms=lambda image: 3,
    magnitude=magnitude,
)
