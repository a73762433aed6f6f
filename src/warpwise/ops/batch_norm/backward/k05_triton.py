"""The gradient in Triton by the forward's two launches: partial sums, which each program of the second adds again."""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.ops.batch_norm.forward.k06_triton import BLOCK, channel_offsets, split


@wt.jit
def gradient_sums(
    dy_ptr,
    x_ptr,
    mean_ptr,
    var_ptr,
    partials_ptr,
    count,
    channels,
    inner,
    share,
    eps,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """dy, x: (n, channels, inner), mean, var: (channels); partials: (channels, 2, PARTS), sums of dy and of dy h, h =
    (x - mean) / sqrt(var + eps). Grid: (channels, PARTS) programs, of `share` elements each.
    """
    channel, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    mean = tl.load(mean_ptr + channel)
    sums = tl.zeros((BLOCK,), tl.float32)
    dots = tl.zeros((BLOCK,), tl.float32)
    if dy_ptr is not None:
        for first in range(part * share, tl.minimum(part * share + share, count), BLOCK):
            at = first + tl.arange(0, BLOCK)
            inside = at < tl.minimum(part * share + share, count)
            offsets = channel_offsets(at, channel, channels, inner)
            dy = tl.load(dy_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
            sums += dy
            dots += dy * (tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32) - mean)
    rstd = 1.0 / tl.sqrt_rn(tl.load(var_ptr + channel) + eps)
    tl.store(partials_ptr + channel * 2 * PARTS + part, tl.sum(sums, axis=0))
    tl.store(partials_ptr + channel * 2 * PARTS + PARTS + part, tl.sum(dots, axis=0) * rstd)


@wt.jit
def gradient_of_input(
    dy_ptr,
    dmean_ptr,
    dvar_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    var_ptr,
    partials_ptr,
    dx_ptr,
    dw_ptr,
    db_ptr,
    count,
    channels,
    inner,
    share,
    eps,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """dx = a dy + b (x - mean) + c: as x. dy, dmean, dvar, weight, dw, db may be None. Grid: (channels, PARTS)."""
    channel, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    every = partials_ptr + channel * 2 * PARTS + tl.arange(0, PARTS)
    total, dot = tl.sum(tl.load(every), axis=0), tl.sum(tl.load(every + PARTS), axis=0)
    if part == 0:
        if dw_ptr is not None:
            tl.store(dw_ptr + channel, dot.to(dw_ptr.dtype.element_ty))
        if db_ptr is not None:
            tl.store(db_ptr + channel, total.to(db_ptr.dtype.element_ty))
    mean, rstd = tl.load(mean_ptr + channel), 1.0 / tl.sqrt_rn(tl.load(var_ptr + channel) + eps)
    a = rstd
    if weight_ptr is not None:
        a *= tl.load(weight_ptr + channel).to(tl.float32)
    b, c = -a * rstd * dot, -a * total
    if dvar_ptr is not None:
        b += 2.0 * tl.load(dvar_ptr + channel)
    if dmean_ptr is not None:
        c += tl.load(dmean_ptr + channel)
    b, c = b / count, c / count
    for first in range(part * share, tl.minimum(part * share + share, count), BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < tl.minimum(part * share + share, count)
        offsets = channel_offsets(at, channel, channels, inner)
        dx = b * (tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32) - mean) + c
        if dy_ptr is not None:
            dx += a * tl.load(dy_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx_ptr + offsets, dx.to(dx_ptr.dtype.element_ty), mask=inside)


def launch(
    outputs: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None],
    dy: torch.Tensor | None,
    dmean: torch.Tensor | None,
    dvar: torch.Tensor | None,
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    mean: torch.Tensor,
    var: torch.Tensor,
) -> None:
    dx, dw, db = outputs
    count, channels, inner, parts, share = split(input)
    if not count:
        for sums in (dw, db):
            if sums is not None:
                sums.zero_()
        return
    partials = mean.new_empty((channels, 2, parts))
    sizes = count, channels, inner, share, eps
    gradient_sums[(channels, parts)](dy, input, mean, var, partials, *sizes, PARTS=parts, BLOCK=BLOCK)
    gradient_of_input[(channels, parts)](
        *(dy, dmean, dvar, input, weight, mean, var, partials, dx, dw, db, *sizes), PARTS=parts, BLOCK=BLOCK
    )
