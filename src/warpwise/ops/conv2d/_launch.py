"""The sizes of a convolution that the ladders of conv2d and conv2d_backward share."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._conv3x3 import row_limits
from warpwise.ops._windows import Pair
from warpwise.ops.conv2d.spec import Optional, output_shape

MOST_ELEMENTS = 2**30  # of a tensor: indices are 32 bits
MOST_GRID = 65535  # blocks in y and z
SIDES = (1, 3, 5, 7)  # of filters that are compile-time constants


def geometry(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    *rest: Any,
) -> tuple[int, ...]:
    """n, c, h, w, k, r, s, p, q, then vertical and horizontal stride, padding and dilation, and groups."""
    _, k, p, q = output_shape(input, weight, bias, stride, padding, dilation)
    return (*input.shape, k, *weight.shape[2:], p, q, *stride, *padding, *dilation, groups)


def limits(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    n, k, p, q = output_shape(input, weight, *rest)
    most = max(input.numel(), weight.numel(), n * k * p * q)
    if most > MOST_ELEMENTS:
        return f"takes tensors of up to {MOST_ELEMENTS} elements, not {most}"
    return (
        f"takes up to {MOST_GRID} channels, not {max(k, input.shape[1])}"
        if max(k, input.shape[1]) > MOST_GRID
        else None
    )


def sums(count: int) -> str:
    """Template arguments of the implicit GEMM for ``count`` rows of outputs: ROWS, TM, TN."""
    return "16, 4, 4" if count <= 16 else "32, 8, 4" if count <= 32 else "64, 8, 8"


def side(weight: torch.Tensor) -> int:
    """The side of a square filter that is a template argument, or 0."""
    r, s = weight.shape[2:]
    return r if r == s and r in SIDES else 0


def template(count: int, weight: torch.Tensor, stride: Pair, padding: Pair, dilation: Pair, *rest: Any) -> str:
    """Template arguments of the backward's implicit GEMM for ``count`` rows of outputs: ROWS, TM, TN, COMMON."""
    common = tuple(weight.shape[2:]) == (3, 3) and (*stride, *dilation) == (1, 1, 1, 1)
    return f"{sums(count)}, {str(common).lower()}"


def tile(count: int) -> int:
    """ROWS of ``template``."""
    return 16 if count <= 16 else 32 if count <= 32 else 64


def direct_limits(input: torch.Tensor, weight: torch.Tensor, bias: Optional, *settings: Any) -> str | None:
    """The limits of the direct tiles: filters of 3 x 3, padding 1, stride and dilation 1, one group."""
    stride, padding, dilation, groups = settings[:4]
    if tuple(weight.shape[2:]) != (3, 3) or (*stride, *padding, *dilation, groups) != (1, 1, 1, 1, 1, 1, 1):
        return "takes filters of 3 x 3 with padding 1, stride 1, dilation 1 and one group"
    return row_limits(input) or limits(input, weight, bias, *settings)
