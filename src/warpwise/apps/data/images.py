"""Labelled images in memory."""

from __future__ import annotations

from typing import NamedTuple

import torch

from warpwise.apps.data.idx import DataError


class Images(NamedTuple):
    """``pixels``: uint8 (N, H, W) or (N, C, H, W); ``labels``: int64 (N,)."""

    pixels: torch.Tensor
    labels: torch.Tensor

    def to(self, device: torch.device | str) -> Images:
        return Images(self.pixels.to(device), self.labels.to(device))

    def __len__(self) -> int:
        return len(self.labels)


class ImageSet(NamedTuple):
    """A data set: images to train with, images to test with, and the names of the classes."""

    name: str
    train: Images
    test: Images
    classes: tuple[str, ...]
    source: str

    @property
    def channels(self) -> int:
        return self.train.pixels.shape[1] if self.train.pixels.dim() == 4 else 1

    def statistics(self) -> tuple[float, float]:
        """The mean and standard deviation of the pixels of ``train``, as fractions of 255.

        Counted in integers from a histogram, so that they are the same on every machine.
        """
        counts = torch.bincount(self.train.pixels.flatten(), minlength=256).double()
        values = torch.arange(256, dtype=torch.float64) / 255
        mean = (counts * values).sum() / counts.sum()
        variance = (counts * (values - mean) ** 2).sum() / counts.sum()
        return float(mean), max(float(variance.sqrt()), 1e-6)


def checked(where: str, pixels: torch.Tensor, labels: torch.Tensor, classes: int) -> Images:
    """``Images`` of these tensors. Raises ``DataError`` unless there is one label in [0, classes) for each image."""
    if len(pixels) != len(labels):
        raise DataError(f"{where}: expected as many labels as images, {len(pixels)}, got {len(labels)}")
    if not len(labels):
        raise DataError(f"{where}: expected images, got none")
    labels = labels.long()
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        bad = low if low < 0 else high
        position = int((labels == bad).nonzero()[0])
        raise DataError(f"{where}: expected labels from 0 to {classes - 1}, got {bad} at position {position}")
    return Images(pixels.contiguous(), labels)
