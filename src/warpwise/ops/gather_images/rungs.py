"""The ladder of gather_images, slowest idea first."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import Rung, cdiv, make_rung
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops.gather_images.spec import SPEC, Optional, Two, affine, check_indices

HERE = Path(__file__).parent
THREADS = 256  # of a block
MOST_ROWS = 65535  # of a grid in y
MOST_PIXELS = 2**30  # of an image and of a batch: an index is 32 bits
TRITON_BLOCK = 1024  # pixels of a program of k04
THREAD_PER_PIXEL = cuda.load(HERE / "k01_thread_per_pixel.cu")
PACKS = cuda.load(HERE / "k03_packs.cu")
IN_C = function(HERE / "k02_c.c", "gather_images", "pppppllff")


def pixels_of(images: torch.Tensor) -> int:
    return math.prod(images.shape[1:])


def limits(images: torch.Tensor, indices: torch.Tensor, *rest: object) -> str | None:
    most = max(pixels_of(images), len(indices))
    return f"takes up to {MOST_PIXELS} pixels an image and images, not {most}" if most > MOST_PIXELS else None


def pack_limits(images: torch.Tensor, indices: torch.Tensor, *rest: object) -> str | None:
    if pixels_of(images) % 4 or images.data_ptr() % 4:
        return f"takes images of a multiple of 4 pixels at aligned addresses, not {pixels_of(images)}"
    return limits(images, indices)


def written(outputs: Two) -> list[Any]:
    return [None if output is None else cuda.out(output) for output in outputs]


def thread_per_pixel(
    outputs: Two, images: torch.Tensor, indices: torch.Tensor, mean: float, std: float, labels: Optional
) -> None:
    batch, pixels = len(indices), pixels_of(images)
    kernel = THREAD_PER_PIXEL["gather_images"][(cdiv(pixels, THREADS), min(batch, MOST_ROWS)), THREADS]
    kernel(images, indices, labels, *written(outputs), batch, pixels, *affine(mean, std))


def in_c(outputs: Two, images: torch.Tensor, indices: torch.Tensor, mean: float, std: float, labels: Optional) -> None:
    check_indices(images, indices)
    IN_C(images, indices, labels, *outputs, len(indices), pixels_of(images), *affine(mean, std))


def packs(outputs: Two, images: torch.Tensor, indices: torch.Tensor, mean: float, std: float, labels: Optional) -> None:
    batch, pixels = len(indices), pixels_of(images)
    kernel = PACKS["gather_images"][(cdiv(pixels // 4, THREADS), min(batch, MOST_ROWS)), THREADS]
    kernel(images, indices, labels, *written(outputs), batch, pixels, *affine(mean, std))


def triton(
    outputs: Two, images: torch.Tensor, indices: torch.Tensor, mean: float, std: float, labels: Optional
) -> None:
    from warpwise.ops.gather_images.k04_triton import gather_images

    (out, out_labels), batch, pixels = outputs, len(indices), pixels_of(images)
    block = min(TRITON_BLOCK, 1 << (pixels - 1).bit_length())
    kernel = gather_images[(batch, cdiv(pixels, block))]
    kernel(images, indices, labels, out, out_labels, pixels, *affine(mean, std), BLOCK=block)


def triton_limits(images: torch.Tensor, indices: torch.Tensor, *rest: object) -> str | None:
    if pixels_of(images) > TRITON_BLOCK * MOST_ROWS:
        return f"takes images of up to {TRITON_BLOCK * MOST_ROWS} pixels, not {pixels_of(images)}"
    return limits(images, indices)


RUNGS = (
    make_rung(HERE, "k01_thread_per_pixel", "one thread per pixel", thread_per_pixel, limits=limits),
    Rung("k02_c", "the definition in C", "c", in_c, HERE / "k02_c.c", devices=("cpu",)),
    make_rung(HERE, "k03_packs", "four pixels per thread, a 16-byte store", packs, limits=pack_limits),
    make_rung(HERE, "k04_triton", "a row of pixels per program in Triton", triton, limits=triton_limits),
)


def default(*args: Any) -> str | None:
    """k03 if it takes the images, else k01: one launch, while PyTorch gathers, converts and scales in several."""
    return first_taking(SPEC, RUNGS, args, "k03_packs", "k01_thread_per_pixel")
