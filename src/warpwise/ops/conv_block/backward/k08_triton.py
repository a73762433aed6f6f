"""The backward in Triton: sums of a channel, the gradient of the convolution, then conv2d_backward's implicit GEMMs.

The gradient of a window flows to its first maximum above 0, which is computed again from the four values of the window.
Each program of the second launch adds the partial sums of its channel, as in batch_norm's Triton rungs.
"""

from collections.abc import Sequence

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv, sm_count

BLOCK, PROGRAMS_PER_SM = 512, 4  # windows or pixels of a program at a time
Optionals = Sequence[torch.Tensor | None]


@wt.jit
def chosen_pixel(y_ptr, window, inside, w, mean, scale, shift):
    """The number, 0 to 3, and the value of the first maximum above 0 of each window of y; -1 if there is none."""
    best = tl.zeros(window.shape, tl.float32)
    value = tl.zeros(window.shape, tl.float32)
    chosen = tl.full(window.shape, -1, tl.int32)
    for e in tl.static_range(4):
        y = tl.load(y_ptr + window + e // 2 * w + e % 2, mask=inside, other=0.0)
        normal = (y - mean) * scale + shift
        better = inside & (normal > best)
        best, value, chosen = tl.where(better, normal, best), tl.where(better, y, value), tl.where(better, e, chosen)
    return chosen, value


@wt.jit
def channel_sums(
    y_ptr, dy_ptr, mean_ptr, var_ptr, gamma_ptr, beta_ptr, partials_ptr, count, share, k, h, w, eps,
    PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y: (n, k, h, w), dy: (n, k, h / 2, w / 2), with `count` windows of a channel; partials: (k, 2, PARTS), sums of g
    and of g (y - mean), g the gradient of the normalised values. Grid: (k, PARTS), of `share` windows each.
    """
    channel, part, oh, ow = tl.program_id(0), tl.program_id(1), h // 2, w // 2
    mean, shift = tl.load(mean_ptr + channel), tl.load(beta_ptr + channel)
    scale = tl.load(gamma_ptr + channel) / tl.sqrt_rn(tl.load(var_ptr + channel) + eps)
    sums = tl.zeros((BLOCK,), tl.float32)
    dots = tl.zeros((BLOCK,), tl.float32)
    for first in range(part * share, tl.minimum(part * share + share, count), BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < tl.minimum(part * share + share, count)
        plane, row, column = (at // (oh * ow)).to(tl.int64) * k + channel, at // ow % oh, at % ow
        chosen, value = chosen_pixel(y_ptr, (plane * h + 2 * row) * w + 2 * column, inside, w, mean, scale, shift)
        g = tl.load(dy_ptr + (plane * oh + row) * ow + column, mask=chosen >= 0, other=0.0)
        sums += g
        dots += g * (value - mean)
    tl.store(partials_ptr + channel * 2 * PARTS + part, tl.sum(sums, axis=0))
    tl.store(partials_ptr + channel * 2 * PARTS + PARTS + part, tl.sum(dots, axis=0))


@wt.jit
def grad_convolved(
    y_ptr, dy_ptr, dmean_ptr, dvar_ptr, dconv_ptr, mean_ptr, var_ptr, gamma_ptr, beta_ptr, partials_ptr, d_ptr,
    dgamma_ptr, dbeta_ptr, count, share, k, h, w, eps, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """d: (n, k, h, w), the gradient of the convolution, `count` pixels of a channel; dmean, dvar, dconv and dy may be
    None. Grid: (k, PARTS) programs, of `share` pixels each.
    """
    channel, part, oh, ow = tl.program_id(0), tl.program_id(1), h // 2, w // 2
    mean, shift = tl.load(mean_ptr + channel), tl.load(beta_ptr + channel)
    rstd = 1.0 / tl.sqrt_rn(tl.load(var_ptr + channel) + eps)
    scale = tl.load(gamma_ptr + channel) * rstd
    every = partials_ptr + channel * 2 * PARTS + tl.arange(0, PARTS)
    total, dot = tl.sum(tl.load(every), axis=0), tl.sum(tl.load(every + PARTS), axis=0) * rstd
    if part == 0:
        tl.store(dgamma_ptr + channel, dot)
        tl.store(dbeta_ptr + channel, total)
    slope, constant = -scale * rstd * dot, -scale * total
    if dvar_ptr is not None:
        slope += 2.0 * tl.load(dvar_ptr + channel)
    if dmean_ptr is not None:
        constant += tl.load(dmean_ptr + channel)
    for first in range(part * share, tl.minimum(part * share + share, count), BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < tl.minimum(part * share + share, count)
        plane, row, column = (at // (h * w)).to(tl.int64) * k + channel, at // w % h, at % w
        pixel = (plane * h + row) * w + column
        d = (slope * (tl.load(y_ptr + pixel, mask=inside, other=0.0) - mean) + constant) / count
        if dy_ptr is not None:
            pooled = inside & (row // 2 < oh) & (column // 2 < ow)
            window = (plane * h + row // 2 * 2) * w + column // 2 * 2
            chosen, _ = chosen_pixel(y_ptr, window, pooled, w, mean, scale, shift)
            own = pooled & (chosen == row % 2 * 2 + column % 2)
            d += scale * tl.load(dy_ptr + (plane * oh + row // 2) * ow + column // 2, mask=own, other=0.0)
        if dconv_ptr is not None:
            d += tl.load(dconv_ptr + pixel, mask=inside, other=0.0)
        tl.store(d_ptr + pixel, d, mask=inside)


def launch(
    y: torch.Tensor, outputs: tuple[torch.Tensor, ...], grads: Optionals, channels: Optionals, eps: float
) -> None:
    """``outputs``: dgamma, dbeta and d, the gradient of ``y`` (N, K, H, W), which has elements. ``grads``: of the
    output, mean, var and y; ``channels``: mean, var, gamma and beta.
    """
    (dgamma, dbeta, d), (dy, dmean, dvar, dconv) = outputs, grads
    n, k, h, w = y.shape
    parts = 1 << (max(1, min(cdiv(PROGRAMS_PER_SM * sm_count(y), k), cdiv(n * h * w, 4 * BLOCK))) - 1).bit_length()
    partials = y.new_empty((k, 2, parts))
    windows = n * (h // 2) * (w // 2) if dy is not None else 0
    share, share_of_windows = (cdiv(cdiv(size, parts), BLOCK) * BLOCK for size in (n * h * w, windows))
    sizes, constants = (k, h, w, eps), {"PARTS": parts, "BLOCK": BLOCK}
    channel_sums[(k, parts)](y, dy, *channels, partials, windows, share_of_windows, *sizes, **constants)
    grad_convolved[(k, parts)](
        *(y, dy, dmean, dvar, dconv, *channels, partials, d, dgamma, dbeta, n * h * w, share, *sizes), **constants
    )
