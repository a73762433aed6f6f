"""The specification of rgb_to_grayscale.

gray = 0.2989 red + 0.587 green + 0.114 blue, the weights of torchvision's rgb_to_grayscale (ITU-R BT.601 luma). For
uint8 pixels the sum is rounded to nearest, ties up, exactly: (2989 r + 5870 g + 1140 b + 5000) div 10000. White stays
white; torchvision truncates, which gives 254 because the weights sum to 0.9999.
"""

from __future__ import annotations

import torch

from warpwise.operation import FLOATS, LAYOUTS, Case, Cost, Gradient, Output, Saved, Spec, check_tensor, draw

DTYPES = (torch.uint8, *FLOATS)
WEIGHTS = (0.2989, 0.587, 0.114)
# A sum that is not a tie is at least 1e-4 from one and the float32 error is below 6e-5, so this rounds up ties only.
HALF_UP = 0.50004


def check(image: torch.Tensor) -> None:
    check_tensor("rgb_to_grayscale", "image", image, DTYPES, dims=(3, 4))
    if image.size(-3) != 3:
        shape = tuple(image.shape)
        raise ValueError(f"rgb_to_grayscale: expected image of shape (3, H, W) or (N, 3, H, W), got {shape}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    """``image`` (N, 3, H, W)."""
    shape = (case.sizes["n"], 3, case.sizes["height"], case.sizes["width"])
    return {"image": draw(shape, dtype, device, seed, case.values)}


def unaligned_channels_last(image: torch.Tensor) -> torch.Tensor:
    """The same pixels interleaved, starting one element past an aligned address."""
    return LAYOUTS["unaligned"](image.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


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


def backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor]:
    """Each channel gets the gradient times its weight; (..., 1, H, W) -> (..., 3, H, W)."""
    return {"image": grad * grad.new_tensor(WEIGHTS).view(3, 1, 1)}


SPEC = Spec(
    schema="rgb_to_grayscale(Tensor image) -> Tensor",
    summary="0.2989 R + 0.587 G + 0.114 B over images (3, H, W) or (N, 3, H, W)",
    inputs=inputs,
    check=check,
    outputs={
        "output": Output(
            shape=lambda image: (*image.shape[:-3], 1, *image.shape[-2:]), dtype="image", terms=3, magnitude=magnitude
        )
    },
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("image", {"n": 1, "height": 16, "width": 64}),
        Case("batch", {"n": 3, "height": 8, "width": 32}),
        Case("ragged", {"n": 2, "height": 13, "width": 37}),
        Case("odd_planes", {"n": 3, "height": 5, "width": 419}),
        Case("interleaved", {"n": 1, "height": 16, "width": 48}, layout="channels_last"),
        Case("interleaved_ragged", {"n": 2, "height": 13, "width": 37}, layout="channels_last"),
        Case("one_element", {"n": 1, "height": 1, "width": 1}),
        Case("empty", {"n": 0, "height": 4, "width": 4}),
        Case("huge", {"n": 1, "height": 5, "width": 33}, values="huge"),
        Case("strided", {"n": 2, "height": 7, "width": 19}, layout="strided"),
        Case("unaligned", {"n": 1, "height": 8, "width": 32}, layout="unaligned"),
        Case("interleaved_unaligned", {"n": 1, "height": 8, "width": 32}, layout="unaligned_channels_last"),
    ),
    sizes=(
        Case("batch", {"n": 16, "height": 4096, "width": 4096}),
        Case("batch_interleaved", {"n": 16, "height": 4096, "width": 4096}, layout="channels_last"),
        Case("image", {"n": 1, "height": 4096, "width": 4096}),
        Case("ragged", {"n": 16, "height": 2047, "width": 2049}),
    ),
    dtypes=DTYPES,
    layouts={"unaligned_channels_last": unaligned_channels_last},
    gradient=Gradient(backward),
)
