"""Domains of the pixels of an image or of the voxels of a volume."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from warpwise.apps.clustering.estimator import as_tensor
from warpwise.apps.clustering.lattices import grid
from warpwise.apps.clustering.mixture import SpatialMixture

MOST_CHANNELS = 4  # a last axis of up to this length holds channels


def segment(
    image: Any, n_domains: int, *, channel_axis: int | str | None = "auto", mask: Any = None, **options: Any
) -> Any:
    """Labels (rows, columns) or (planes, rows, columns) int64 of the domains of ``image``, an array or a tensor.

    ``image`` is 2-D or 3-D, and may have an axis of channels, ``channel_axis``; None if it has none. "auto" takes the
    last of three or four axes as channels if it has at most 4 elements, or if there are four. Only points where
    ``mask``, of the shape of the labels, is true are clustered; the others have the label -1. ``options`` are those of
    ``SpatialMixture``, whose neighbours are pixels that share an edge or a corner, or voxels that share a face. The
    result is of the kind of ``image``.

    Raises ``ValueError`` for another number of axes, a mask of another shape or without points, and the errors of
    ``SpatialMixture.fit``.
    """
    points, shape = pixels(image, channel_axis)
    if mask is None:
        return SpatialMixture(n_domains, **options).fit(points, shape=shape).labels_.reshape(shape)
    kept = mask.cpu().bool() if isinstance(mask, torch.Tensor) else as_tensor(np.asarray(mask).astype(bool))
    if kept.shape != torch.Size(shape):
        raise ValueError(f"mask: expected {shape}, got {tuple(kept.shape)}")
    if not bool(kept.any()):
        raise ValueError("mask: expected at least one point that is true")
    inside = kept.flatten()
    chosen = inside.to(points.device) if isinstance(points, torch.Tensor) else inside.numpy()
    model = SpatialMixture(n_domains, **options).fit(points[chosen], graph=grid(shape, "auto").subgraph(inside))
    if isinstance(points, torch.Tensor):
        labels: Any = torch.full((inside.numel(),), -1, device=points.device)
    else:
        labels = np.full(inside.numel(), -1)
    labels[chosen] = model.labels_
    return labels.reshape(shape)


def pixels(image: Any, channel_axis: int | str | None = "auto") -> tuple[Any, tuple[int, ...]]:
    """The points (N, channels) of ``image`` in row-major order, float32 or float64, and its shape without channels."""
    array = image if isinstance(image, torch.Tensor) else np.asarray(image)
    if channel_axis == "auto":
        channels = array.ndim == 4 or (array.ndim == 3 and array.shape[-1] <= MOST_CHANNELS)
        channel_axis = -1 if channels else None
    if channel_axis is None:
        array = array[..., None]
    elif not isinstance(channel_axis, int) or not -array.ndim <= channel_axis < array.ndim:
        raise ValueError(f'channel_axis: expected "auto", None or an axis of {array.ndim}, got {channel_axis!r}')
    elif isinstance(array, torch.Tensor):
        array = array.movedim(channel_axis, -1)
    else:
        array = np.moveaxis(array, channel_axis, -1)
    shape = tuple(int(size) for size in array.shape[:-1])
    if len(shape) not in (2, 3):
        raise ValueError(f"image: expected two or three axes, or one more for channels, got {tuple(np.shape(image))}")
    points = array.reshape(-1, array.shape[-1])
    if isinstance(points, torch.Tensor):
        return points if points.is_floating_point() else points.float(), shape
    return points if points.dtype in (np.float32, np.float64) else points.astype(np.float32), shape
