"""The specification of gather_images."""

from __future__ import annotations

import math
from typing import Any

import torch

from warpwise.operation import Case, Cost, Output, Spec, check_tensor, draw

Optional = torch.Tensor | None
Two = tuple[torch.Tensor, Optional]


def check(images: torch.Tensor, indices: torch.Tensor, mean: float, std: float, labels: Optional) -> None:
    check_tensor("gather_images", "images", images, (torch.uint8,))
    check_tensor("gather_images", "indices", indices, (torch.int64,), dims=(1,))
    if not images.dim():
        raise ValueError("gather_images: expected images of shape (N, ...), got ()")
    if indices.device != images.device:
        raise ValueError(f"gather_images: expected indices on images' device {images.device}, got {indices.device}")
    if not (math.isfinite(mean) and 0 < std < math.inf):
        raise ValueError(f"gather_images: expected a finite mean and a positive, finite std, got {mean} and {std}")
    if labels is not None:
        check_tensor("gather_images", "labels", labels, (torch.int64,), dims=(1,))
        if len(labels) != len(images):
            raise ValueError(f"gather_images: expected {len(images)} labels, one for each image, got {len(labels)}")
        if labels.device != images.device:
            raise ValueError(f"gather_images: expected labels on images' device {images.device}, got {labels.device}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``images`` (n, height, width) and ``batch`` indices, with repetitions; labels with the attribute ``labelled``."""
    n, batch = case.sizes["n"], case.sizes["batch"]
    images = draw((n, case.sizes["height"], case.sizes["width"]), dtype, device, seed)
    if device.type == "meta" or not n:
        indices = torch.zeros(batch if n else 0, dtype=torch.int64, device=device)
    else:
        generator = torch.Generator(device).manual_seed(seed + 1)
        indices = torch.randint(0, n, (batch,), generator=generator, device=device)
    labels = draw((n,), torch.int64, device, seed + 2) if case.attributes.get("labelled") else None
    return {"images": images, "indices": indices, "mean": 0.13, "std": 0.31, "labels": labels}


def reference(images: torch.Tensor, indices: torch.Tensor, mean: float, std: float, labels: Optional) -> Two:
    return (images[indices].double() / 255 - mean) / std, None if labels is None else labels[indices]


def magnitude(images: torch.Tensor, indices: torch.Tensor, mean: float, std: float, labels: Optional) -> torch.Tensor:
    return (images[indices].double() / 255 + abs(mean)) / std


def affine(mean: float, std: float) -> tuple[float, float]:
    """The factor and the summand of a pixel."""
    return 1 / (255 * std), -mean / std


def check_indices(images: torch.Tensor, indices: torch.Tensor) -> None:
    """Raise ``IndexError`` for an index outside [0, N), on a CPU. Part of each call, since keys do not hold values."""
    if images.device.type != "cpu" or not len(indices):
        return
    low, high = (int(end) for end in indices.aminmax())
    if low < 0 or high >= len(images):
        got = low if low < 0 else high
        raise IndexError(f"gather_images: expected indices in [0, {len(images)}), got {got}")


def eager(images: torch.Tensor, indices: torch.Tensor, mean: float, std: float, labels: Optional) -> Two:
    check_indices(images, indices)
    scale, shift = affine(mean, std)
    gathered = images[indices].contiguous().float().mul_(scale).add_(shift)
    return gathered, None if labels is None else labels[indices].contiguous()


def cost(images: torch.Tensor, indices: torch.Tensor, mean: float, std: float, labels: Optional) -> Cost:
    """One byte read and four written per pixel, a label read and written; one multiplication and one addition."""
    pixels = len(indices) * math.prod(images.shape[1:])
    return Cost(bytes=5 * pixels + (1 if labels is None else 3) * indices.nbytes, flops=2 * pixels)


SPEC = Spec(
    schema="gather_images(Tensor images, Tensor indices, float mean=0.0, float std=1.0, Tensor? labels=None)"
    " -> (Tensor output, Tensor gathered_labels)",
    summary="a batch of uint8 images, gathered by index and normalised to float32, and its labels",
    inputs=inputs,
    check=check,
    outputs={
        "output": Output(
            shape=lambda images, indices, *rest: (len(indices), *images.shape[1:]),
            dtype=torch.float32,
            terms=2,
            magnitude=magnitude,
        ),
        "gathered_labels": Output(
            shape=lambda images, indices, *rest: (len(indices),),
            dtype=torch.int64,
            present=lambda *args: args[4] is not None,
        ),
    },
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("digits", {"n": 7, "batch": 3, "height": 28, "width": 28}, {"labelled": True}),
        Case("ragged", {"n": 5, "batch": 9, "height": 11, "width": 13}),
        Case("ragged_labelled", {"n": 5, "batch": 9, "height": 11, "width": 13}, {"labelled": True}),
        Case("one_element", {"n": 1, "batch": 1, "height": 1, "width": 1}),
        Case("empty", {"n": 0, "batch": 0, "height": 4, "width": 4}),
        Case("strided", {"n": 4, "batch": 5, "height": 6, "width": 9}, layout="strided"),
        Case("unaligned", {"n": 4, "batch": 5, "height": 4, "width": 16}, layout="unaligned"),
    ),
    sizes=(
        Case("step", {"n": 60000, "batch": 128, "height": 28, "width": 28}, {"labelled": True}),
        Case("batch", {"n": 60000, "batch": 2048, "height": 28, "width": 28}, {"labelled": True}),
        Case("ragged", {"n": 5000, "batch": 1000, "height": 33, "width": 31}),
    ),
    dtypes=(torch.uint8,),
)
