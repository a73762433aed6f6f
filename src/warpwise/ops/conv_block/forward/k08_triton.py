"""The fused block in Triton: the convolution's tile of tl.dot also gives mean and squared deviations of each filter.

A tile stores its mean and its sum of squared deviations from that mean, which a second launch combines in a fixed order
without cancellation. A third launch normalises, applies relu and pools, and reads the convolution once.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv

# Pixels and filters of a tile, terms of the sum per step, windows and partial statistics of a program.
PIXELS, MOST_FILTERS, DEPTH, WINDOWS, PARTIALS = 64, 64, 16, 256, 1024


@wt.jit
def convolve(
    x_ptr, f_ptr, y_ptr, partials_ptr, n, c, h, w, k,
    PIXELS: tl.constexpr, FILTERS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """x: (n, c, h, w), f: (k, c, 3, 3), y: (n, k, h, w); partials: (k, 2, tiles), means and squared deviations.

    Grid: (cdiv(n h w, PIXELS) tiles, cdiv(k, FILTERS)) programs.
    """
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    image, row, column = pixel // (h * w), pixel // w % h - 1, pixel % w - 1
    own = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    sums = tl.zeros((PIXELS, FILTERS), tl.float32)
    for first in range(0, 9 * c, DEPTH):
        at = first + tl.arange(0, DEPTH)
        down, across = row[:, None] + (at // 3 % 3)[None, :], column[:, None] + (at % 3)[None, :]
        inside = (down >= 0) & (down < h) & (across >= 0) & (across < w) & (image < n)[:, None] & (at < 9 * c)[None, :]
        plane = (image.to(tl.int64) * c)[:, None] + (at // 9)[None, :]
        patches = tl.load(x_ptr + plane * h * w + down * w + across, mask=inside, other=0.0)
        taken = (at < 9 * c)[:, None] & (own < k)[None, :]
        weights = tl.load(f_ptr + own[None, :] * (9 * c) + at[:, None], mask=taken, other=0.0)
        sums = tl.dot(patches, weights, sums, input_precision="ieee")
    offsets = ((image.to(tl.int64) * k)[:, None] + own[None, :]) * (h * w) + (pixel % (h * w))[:, None]
    tl.store(y_ptr + offsets, sums, mask=(image < n)[:, None] & (own < k)[None, :])
    means = tl.sum(sums, axis=0) / tl.minimum(n * h * w - tl.program_id(0) * PIXELS, PIXELS)  # others are 0
    away = tl.where((image < n)[:, None], sums - means[None, :], 0.0)
    of_tile = partials_ptr + own * 2 * tl.num_programs(0) + tl.program_id(0)
    tl.store(of_tile, means, mask=own < k)
    tl.store(of_tile + tl.num_programs(0), tl.sum(away * away, axis=0), mask=own < k)


@wt.jit
def combine(partials_ptr, mean_ptr, var_ptr, tiles, count, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    """mean, var: (k), of `count` values in tiles of PIXELS. Grid: k programs."""
    partials_ptr += tl.program_id(0).to(tl.int64) * 2 * tiles
    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, tiles, BLOCK):
        tile = first + tl.arange(0, BLOCK)
        size = tl.minimum(count - tile * PIXELS, PIXELS)
        sums += size * tl.load(partials_ptr + tile, mask=tile < tiles, other=0.0)
    mean = tl.sum(sums, axis=0) / count
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, tiles, BLOCK):
        tile = first + tl.arange(0, BLOCK)
        away = tl.load(partials_ptr + tile, mask=tile < tiles, other=0.0) - mean
        within = tl.load(partials_ptr + tiles + tile, mask=tile < tiles, other=0.0)
        squares += tl.where(tile < tiles, within + tl.minimum(count - tile * PIXELS, PIXELS) * away * away, 0.0)
    tl.store(mean_ptr + tl.program_id(0), mean)
    tl.store(var_ptr + tl.program_id(0), tl.sum(squares, axis=0) / count)


@wt.jit
def normalise_and_pool(
    y_ptr, mean_ptr, var_ptr, gamma_ptr, beta_ptr, out_ptr, total, k, h, w, eps, BLOCK: tl.constexpr
):  # fmt: skip
    """y: (n, k, h, w), out: (n, k, h / 2, w / 2), `total` windows; the others: (k). Grid: cdiv(total, BLOCK)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    oh, ow = h // 2, w // 2
    plane, inside = i // (oh * ow), i < total
    scale = tl.load(gamma_ptr + plane % k, mask=inside, other=0.0)
    scale /= tl.sqrt_rn(tl.load(var_ptr + plane % k, mask=inside, other=1.0) + eps)
    mean = tl.load(mean_ptr + plane % k, mask=inside, other=0.0)
    shift = tl.load(beta_ptr + plane % k, mask=inside, other=0.0)
    window = y_ptr + (plane.to(tl.int64) * h + i // ow % oh * 2) * w + i % ow * 2
    best = tl.zeros((BLOCK,), tl.float32)
    for e in tl.static_range(4):
        normal = (tl.load(window + e // 2 * w + e % 2, mask=inside, other=0.0) - mean) * scale + shift
        best = tl.where((best == best) & ~(normal <= best), normal, best)  # noqa: PLR0124 - NaN is the largest
    tl.store(out_ptr + i, best, mask=inside)


def convolution(input: torch.Tensor, weight: torch.Tensor, convolved: torch.Tensor) -> torch.Tensor:
    """Fills ``convolved``, (N, K, H, W) of at least one element, and returns the partial statistics of its tiles."""
    n, c, h, w = input.shape
    k, tiles = weight.shape[0], cdiv(n * h * w, PIXELS)
    filters = max(16, min(MOST_FILTERS, 1 << (k - 1).bit_length()))
    partials = input.new_empty((k, 2, tiles))
    convolve[(tiles, cdiv(k, filters))](
        *(input, weight, convolved, partials, n, c, h, w, k), PIXELS=PIXELS, FILTERS=filters, DEPTH=DEPTH, num_warps=4
    )
    return partials


def launch(
    outputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None],
    convolved: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
) -> None:
    (output, mean, var, _), (_, k, h, w) = outputs, convolved.shape
    if not convolved.numel():  # the mean of no elements is NaN
        mean.fill_(float("nan"))
        var.fill_(float("nan"))
        return
    partials, count = convolution(input, weight, convolved), convolved.numel() // k
    combine[(k,)](partials, mean, var, partials.shape[2], count, PIXELS=PIXELS, BLOCK=PARTIALS)
    normalise_and_pool[(cdiv(output.numel(), WINDOWS),)](
        *(convolved, mean, var, gamma, beta, output, output.numel(), k, h, w, eps), BLOCK=WINDOWS, num_warps=4
    )
