"""The specification of gather_images."""

from __future__ import annotations

import math
from typing import Any

import torch

from warpwise.operation import Case, Cost, Output, Spec, check_tensor, draw


def check(images: torch.Tensor, indices: torch.Tensor, mean: float, std: float) -> None:
    check_tensor("gather_images", "images", images, (torch.uint8,))
    check_tensor("gather_images", "indices", indices, (torch.int64,), dims=(1,))
    if not images.dim():
        raise ValueError("gather_images: expected images of shape (N, ...), got ()")
    if indices.device != images.device:
        raise ValueError(f"gather_images: expected indices on images' device {images.device}, got {indices.device}")
    if not (math.isfinite(mean) and 0 < std < math.inf):
        raise ValueError(f"gather_images: expected a finite mean and a positive, finite std, got {mean} and {std}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``images`` (n, height, width) and ``batch`` indices, with repetitions."""
    n, batch = case.sizes["n"], case.sizes["batch"]
    images = draw((n, case.sizes["height"], case.sizes["width"]), dtype, device, seed)
    if device.type == "meta" or not n:
        indices = torch.zeros(batch if n else 0, dtype=torch.int64, device=device)
    else:
        generator = torch.Generator(device).manual_seed(seed + 1)
        indices = torch.randint(0, n, (batch,), generator=generator, device=device)
    return {"images": images, "indices": indices, "mean": 0.13, "std": 0.31}


def reference(images: torch.Tensor, indices: torch.Tensor, mean: float, std: float) -> torch.Tensor:
    return (images[indices].double() / 255 - mean) / std


def magnitude(images: torch.Tensor, indices: torch.Tensor, mean: float, std: float) -> torch.Tensor:
    return (images[indices].double() / 255 + abs(mean)) / std


def affine(mean: float, std: float) -> tuple[float, float]:
    """The factor and the summand of a pixel."""
    return 1 / (255 * std), -mean / std


def eager(images: torch.Tensor, indices: torch.Tensor, mean: float, std: float) -> torch.Tensor:
    scale, shift = affine(mean, std)
    return images[indices].contiguous().float().mul_(scale).add_(shift)


def cost(images: torch.Tensor, indices: torch.Tensor, mean: float, std: float) -> Cost:
    """One byte read and four written per pixel; one multiplication and one addition."""
    pixels = len(indices) * math.prod(images.shape[1:])
    return Cost(bytes=5 * pixels + indices.nbytes, flops=2 * pixels)


SPEC = Spec(
    schema="gather_images(Tensor images, Tensor indices, float mean=0.0, float std=1.0) -> Tensor",
    summary="a batch of uint8 images, gathered by index and normalised to float32",
    inputs=inputs,
    check=check,
    outputs={
        "output": Output(
            shape=lambda images, indices, *rest: (len(indices), *images.shape[1:]),
            dtype=torch.float32,
            terms=2,
            magnitude=magnitude,
        )
    },
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("digits", {"n": 7, "batch": 3, "height": 28, "width": 28}),
        Case("ragged", {"n": 5, "batch": 9, "height": 11, "width": 13}),
        Case("one_element", {"n": 1, "batch": 1, "height": 1, "width": 1}),
        Case("empty", {"n": 0, "batch": 0, "height": 4, "width": 4}),
        Case("strided", {"n": 4, "batch": 5, "height": 6, "width": 9}, layout="strided"),
        Case("unaligned", {"n": 4, "batch": 5, "height": 4, "width": 16}, layout="unaligned"),
    ),
    sizes=(
        Case("step", {"n": 60000, "batch": 128, "height": 28, "width": 28}),
        Case("batch", {"n": 60000, "batch": 2048, "height": 28, "width": 28}),
        Case("ragged", {"n": 5000, "batch": 1000, "height": 33, "width": 31}),
    ),
    dtypes=(torch.uint8,),
)
