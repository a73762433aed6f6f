"""The ladder of gaussian_blur_backward. Kernels take (planes, height, width)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import make_rung
from warpwise.ops.gaussian_blur._launch import BLOCK, extents, grid, grid_limit
from warpwise.ops.gaussian_blur.weights import computed, tensors

HERE = Path(__file__).parent

SEPARABLE = cuda.load(HERE / "k01_separable.cu")


def separable(out: torch.Tensor, grad: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    weights_x, weights_y = tensors(grad, kernel_size, sigma)
    sums, shape = torch.empty_like(grad, dtype=computed(grad.dtype)), extents(grad)
    pixel, total = cuda.ctype(grad.dtype), cuda.ctype(sums.dtype)
    columns = SEPARABLE[f"blur_backward<{pixel}, {total}, {total}, true>"]
    rows = SEPARABLE[f"blur_backward<{total}, {pixel}, {total}, false>"]
    columns[grid(grad), BLOCK](grad, cuda.out(sums), weights_y, *shape, kernel_size[1] // 2)
    rows[grid(grad), BLOCK](sums, cuda.out(out), weights_x, *shape, kernel_size[0] // 2)


RUNGS = (make_rung(HERE, "k01_separable", "the adjoint gathers, one axis a pass", separable, limits=grid_limit),)


def default(grad_output: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    return "k01_separable" if grid_limit(grad_output) is None else None
