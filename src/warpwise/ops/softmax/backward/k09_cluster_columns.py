"""The launcher of k09_cluster_columns."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv
from warpwise.ops.softmax import _columns

CLUSTER_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))


def cluster_columns(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor, dim: int) -> None:
    shape, packed, count, inner, length = _columns.of(dim, out, gradient, y, cluster=True)
    if shape is None:
        raise ValueError(_columns.cluster_limits(out, dim))
    options = f"<{cuda.ctype(out.dtype)}, {packed}, {shape.threads}, {shape.values}, {shape.parts}>"
    grid, block = (cdiv(count, shape.lanes * packed), shape.parts), (shape.lanes, shape.height)
    kernel = CLUSTER_COLUMNS[f"softmax_backward_cluster_columns{options}"]
    kernel[grid, block](gradient, y, cuda.out(out), count, inner, length, shape.share)
