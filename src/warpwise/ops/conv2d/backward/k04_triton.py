"""Both gradients as implicit GEMMs with tl.dot, on tensor cores if TF32 is allowed; sums over pixels are split.

dx: (n h w, c) = patches of dy (n h w, k r s) times filters; df: (k, c r s) = dy, transposed (k, n p q), times patches
of x (n p q, c r s), for each group. db is the sum of the tiles of dy that df reads. A last launch adds partial sums.
"""

from typing import Any

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv, sm_count
from warpwise.ops.conv2d._launch import geometry
from warpwise.ops.conv2d.forward.k06_triton import power_of_two

TILE, DEPTH, PROGRAMS_PER_SM = 64, 16, 4  # rows, and columns at most, of a tile; terms of a step


@wt.jit
def grad_input(
    dy_ptr, f_ptr, dx_ptr, n, c, h, w, k, p, q, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
    R: tl.constexpr, S: tl.constexpr, PRECISION: tl.constexpr, PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """dy: (n, k, p, q), f: (k, c / groups, R, S), dx: (n, c, h, w).

    Grid: (cdiv(n h w, PIXELS), cdiv(c / groups, CHANNELS), groups) programs.
    """
    group, channels, filters = tl.program_id(2), c // groups, k // groups
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    image, row, column = pixel // (h * w), pixel // w % h + pad_h, pixel % w + pad_w
    own = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    first_plane = (image.to(tl.int64) * k + group * filters) * p * q
    f_ptr += group * filters * channels * R * S
    sums = tl.zeros((PIXELS, CHANNELS), tl.float32)
    for first in range(0, filters * R * S, DEPTH):
        at = first + tl.arange(0, DEPTH)
        down = row[:, None] - (at // S % R * dilation_h)[None, :]
        across = column[:, None] - (at % S * dilation_w)[None, :]
        inside = (down >= 0) & (down % stride_h == 0) & (down // stride_h < p) & (image < n)[:, None]
        inside &= (across >= 0) & (across % stride_w == 0) & (across // stride_w < q) & (at < filters * R * S)[None, :]
        offsets = (at // (R * S) * p * q)[None, :] + down // stride_h * q + across // stride_w
        patches = tl.load(dy_ptr + first_plane[:, None] + offsets, mask=inside, other=0.0)
        element = at // (R * S) * channels * R * S + at % (R * S)
        taken = (at < filters * R * S)[:, None] & (own < channels)[None, :]
        weights = tl.load(f_ptr + element[:, None] + own[None, :] * (R * S), mask=taken, other=0.0)
        sums = tl.dot(patches, weights, sums, input_precision=PRECISION)
    plane = image.to(tl.int64) * c + group * channels
    offsets = (plane[:, None] + own[None, :]) * (h * w) + (pixel % (h * w))[:, None]
    tl.store(dx_ptr + offsets, sums, mask=(image < n)[:, None] & (own < channels)[None, :])


@wt.jit
def grad_weight(
    dy_ptr, x_ptr, partials_ptr, share, n, c, h, w, k, p, q, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    groups, R: tl.constexpr, S: tl.constexpr, PRECISION: tl.constexpr, FILTERS: tl.constexpr, ELEMENTS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """partials: (splits, k c / groups R S + k): the gradients of filters, then of biases, of `share` pixels each.

    Grid: (cdiv(c / groups R S, ELEMENTS), cdiv(k / groups, FILTERS) groups, splits) programs.
    """
    filters, depth, tiles = k // groups, c // groups * R * S, tl.cdiv(k // groups, FILTERS)
    group, split = tl.program_id(1) // tiles, tl.program_id(2)
    own = tl.program_id(1) % tiles * FILTERS + tl.arange(0, FILTERS)
    element = tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS)
    row, column = element // S % R * dilation_h - pad_h, element % S * dilation_w - pad_w
    x_plane = group * (c // groups) + element // (R * S)
    sums = tl.zeros((FILTERS, ELEMENTS), tl.float32)
    biases = tl.zeros((FILTERS,), tl.float32)
    for first in range(split * share, tl.minimum(split * share + share, n * p * q), DEPTH):
        pixel = first + tl.arange(0, DEPTH)
        image, counted = (pixel // (p * q)).to(tl.int64), pixel < tl.minimum(split * share + share, n * p * q)
        offsets = (image[None, :] * k + group * filters + own[:, None]) * (p * q) + (pixel % (p * q))[None, :]
        dy = tl.load(dy_ptr + offsets, mask=counted[None, :] & (own < filters)[:, None], other=0.0)
        down = (pixel // q % p * stride_h)[:, None] + row[None, :]
        across = (pixel % q * stride_w)[:, None] + column[None, :]
        inside = counted[:, None] & (element < depth)[None, :] & (down >= 0) & (down < h) & (across >= 0) & (across < w)
        offsets = (image[:, None] * c + x_plane[None, :]) * (h * w) + down * w + across
        patches = tl.load(x_ptr + offsets, mask=inside, other=0.0)
        sums = tl.dot(dy, patches, sums, input_precision=PRECISION)
        biases += tl.sum(dy, axis=1)
    partials_ptr += split.to(tl.int64) * (k * depth + k)
    filter = group * filters + own
    inside = (own < filters)[:, None] & (element < depth)[None, :]
    tl.store(partials_ptr + filter[:, None] * depth + element[None, :], sums, mask=inside)
    if tl.program_id(0) == 0:
        tl.store(partials_ptr + k * depth + filter, biases, mask=own < filters)


@wt.jit
def add_partials(partials_ptr, sums_ptr, splits, first, size, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """sums: (size) = the sums over splits of partials: (splits, stride), columns from `first` on."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    totals = tl.zeros((ROWS, BLOCK), tl.float32)
    for begin in range(0, splits, ROWS):
        row = (begin + tl.arange(0, ROWS)).to(tl.int64)
        inside = (row < splits)[:, None] & (at < size)[None, :]
        totals += tl.load(partials_ptr + row[:, None] * stride + first + at[None, :], mask=inside, other=0.0)
    tl.store(sums_ptr + at, tl.sum(totals, axis=0), mask=at < size)


def launch(
    outputs: tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None],
    dy: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *settings: Any,
) -> None:
    dx, dw, db = outputs
    n, c, h, w, k, r, s, p, q, *rest = geometry(input, weight, bias, *settings[:4])
    groups, sizes = rest[-1], (n, c, h, w, k, p, q, *rest)
    constants = {"R": r, "S": s, "PRECISION": "tf32" if settings[-1] else "ieee", "DEPTH": DEPTH, "num_warps": 4}
    if dx is not None and dx.numel():
        channels = power_of_two(c // groups, TILE)
        grid = cdiv(n * h * w, TILE), cdiv(c // groups, channels), groups
        grad_input[grid](dy, weight, dx, *sizes, PIXELS=TILE, CHANNELS=channels, **constants)
    if dw is None and db is None:
        return
    filters, elements = power_of_two(k // groups, TILE), power_of_two(weight[0].numel(), TILE)
    across, down = cdiv(weight[0].numel(), elements), cdiv(k // groups, filters) * groups
    wanted = cdiv(PROGRAMS_PER_SM * sm_count(dy), across * down)
    share = DEPTH * cdiv(max(1, n * p * q), DEPTH * max(1, min(wanted, cdiv(n * p * q, 16 * DEPTH))))
    splits = max(1, cdiv(n * p * q, share))
    partials = dy.new_empty((splits, weight.numel() + k))
    grid = across, down, splits
    grad_weight[grid](dy, input, partials, share, *sizes, FILTERS=filters, ELEMENTS=elements, **constants)
    for sums, first in ((dw, 0), (db, weight.numel())):
        if sums is not None:
            kernel = add_partials[(cdiv(sums.numel(), 32),)]
            kernel(partials, sums, splits, first, sums.numel(), partials.shape[1], ROWS=32, BLOCK=32)
