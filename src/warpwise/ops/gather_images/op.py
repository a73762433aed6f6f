"""The public function gather_images."""

from __future__ import annotations

from typing import overload

import torch

from warpwise.operation import Op, register
from warpwise.ops.gather_images.rungs import RUNGS, default
from warpwise.ops.gather_images.spec import SPEC

GATHER_IMAGES = register(Op(SPEC, RUNGS, default))
_gather_images = GATHER_IMAGES.call


@overload
def gather_images(
    images: torch.Tensor,
    indices: torch.Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    labels: None = None,
    *,
    rung: str | None = None,
) -> torch.Tensor: ...
@overload
def gather_images(
    images: torch.Tensor,
    indices: torch.Tensor,
    mean: float,
    std: float,
    labels: torch.Tensor,
    *,
    rung: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]: ...
def gather_images(
    images: torch.Tensor,
    indices: torch.Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    labels: torch.Tensor | None = None,
    *,
    rung: str | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``(images[indices] / 255 - mean) / std``, float32, of shape (B, ...); with ``labels`` also ``labels[indices]``.

    ``images``: uint8 (N, ...); ``indices``: int64 (B,), in [0, N): an index outside raises ``IndexError`` on a CPU and
    is undefined on a GPU, since checking it would synchronise. ``std`` is positive. ``labels``: int64 (N,) or None. Not
    differentiable. ``rung`` names one kernel of the ladder. Raises ``TypeError`` or ``ValueError`` that names the
    argument.
    """
    gathered, gathered_labels = _gather_images(images, indices, mean, std, labels, rung=rung)
    return gathered if labels is None else (gathered, gathered_labels)
