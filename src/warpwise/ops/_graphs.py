"""Checks of a graph in compressed rows and of the colours of its points, shared by the operations on graphs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch

from warpwise.operation import check_tensor

INDICES = (torch.int32, torch.int64)


def check_graph(op: str, rowptr: torch.Tensor, columns: torch.Tensor, name: str, points: torch.Tensor) -> None:
    """Raise unless ``rowptr`` (N + 1,) and ``columns`` (edges,) are both int32 or both int64, on the device of
    ``points``, the argument ``name`` with N rows.

    Raises ``TypeError`` for another dtype, and ``ValueError`` for another shape or device. The values are not checked:
    on a GPU that would synchronise.
    """
    check_tensor(op, "columns", columns, INDICES, dims=(1,))
    check_tensor(op, "rowptr", rowptr, (columns.dtype,), dims=(1,))
    if len(rowptr) != len(points) + 1:
        raise ValueError(f"{op}: expected rowptr ({len(points) + 1},), got {tuple(rowptr.shape)}")
    for own, tensor in (("rowptr", rowptr), ("columns", columns)):
        if tensor.device != points.device:
            raise ValueError(f"{op}: expected {own} on {name}'s device {points.device}, got {tensor.device}")


def check_bounds(op: str, bounds: Sequence[int], n: int) -> None:
    """Raise ``ValueError`` unless ``bounds`` are two or more integers from 0 to ``n`` that do not fall."""
    if len(bounds) < 2 or bounds[0] < 0 or bounds[-1] > n or any(end < begin for begin, end in pairwise(bounds)):
        raise ValueError(f"{op}: expected bounds that rise from at least 0 to at most {n}, got {tuple(bounds)}")
