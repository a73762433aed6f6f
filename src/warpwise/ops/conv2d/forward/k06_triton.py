"""The implicit GEMM in Triton: tl.dot of gathered patches and filters, on tensor cores if TF32 is allowed.

Rows of the product are output pixels, columns are filters, and the sum is over the c / groups r s elements of a filter.
Operands are gathered by pointers that are computed from indices, as in k04; Triton stages them in shared memory and
overlaps the loads of the next step with the multiplications.
"""

from typing import Any

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv
from warpwise.ops.conv2d._launch import geometry


@wt.jit
def conv2d(
    x_ptr,
    f_ptr,
    bias_ptr,
    y_ptr,
    n,
    c,
    h,
    w,
    k,
    p,
    q,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    groups,
    R: tl.constexpr,
    S: tl.constexpr,
    PRECISION: tl.constexpr,
    PIXELS: tl.constexpr,
    FILTERS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """x: (n, c, h, w), f: (k, c / groups, R, S), bias: (k) or None, y: (n, k, p, q).

    Grid: (cdiv(n p q, PIXELS), cdiv(k / groups, FILTERS), groups) programs.
    """
    group, channels, filters = tl.program_id(2), c // groups, k // groups
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    image, row, column = pixel // (p * q), pixel // q % p * stride_h - pad_h, pixel % q * stride_w - pad_w
    own = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    first_plane = (image.to(tl.int64) * c + group * channels) * h * w
    f_ptr += group * filters * channels * R * S

    sums = tl.zeros((PIXELS, FILTERS), tl.float32)
    for first in range(0, channels * R * S, DEPTH):
        at = first + tl.arange(0, DEPTH)
        down = row[:, None] + (at // S % R * dilation_h)[None, :]
        across = column[:, None] + (at % S * dilation_w)[None, :]
        inside = (down >= 0) & (down < h) & (across >= 0) & (across < w)
        inside &= (image < n)[:, None] & (at < channels * R * S)[None, :]
        offsets = first_plane[:, None] + (at // (R * S) * h * w)[None, :] + down * w + across
        patches = tl.load(x_ptr + offsets, mask=inside, other=0.0)
        taken = (at < channels * R * S)[:, None] & (own < filters)[None, :]
        weights = tl.load(f_ptr + own[None, :] * (channels * R * S) + at[:, None], mask=taken, other=0.0)
        sums = tl.dot(patches, weights, sums, input_precision=PRECISION)
    plane = image.to(tl.int64) * k + group * filters
    if bias_ptr is not None:
        sums += tl.load(bias_ptr + group * filters + own, mask=own < filters, other=0.0)[None, :]
    offsets = (plane[:, None] + own[None, :]) * (p * q) + (pixel % (p * q))[:, None]
    tl.store(y_ptr + offsets, sums, mask=(image < n)[:, None] & (own < filters)[None, :])


def power_of_two(size: int, most: int) -> int:
    """The power of two from 16, the least of tl.dot, to ``most`` that is at least ``size``, if there is one."""
    return max(16, min(most, 1 << (size - 1).bit_length()))


def launch(
    output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *settings: Any
) -> None:
    n, c, h, w, k, r, s, p, q, *rest = geometry(input, weight, bias, *settings)
    groups = rest[-1]
    filters, precision = power_of_two(k // groups, 64), "tf32" if settings[-1] else "ieee"
    conv2d[(cdiv(n * p * q, 64), cdiv(k // groups, filters), groups)](
        *(input, weight, bias, output, n, c, h, w, k, p, q, *rest),
        R=r, S=s, PRECISION=precision, PIXELS=64, FILTERS=filters, DEPTH=16, num_warps=4,
    )  # fmt: skip
