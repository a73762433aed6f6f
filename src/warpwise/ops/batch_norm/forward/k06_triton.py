"""Several programs per channel in Triton, without a semaphore: programs of the second launch add all partial sums.

k03's last block adds the partial sums of its channel. Here each program that normalises reads them again, a few hundred
bytes out of L2, and computes mean and variance itself. Sums are of values minus the channel's first value, as in k03.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv
from warpwise.ops.batch_norm import _launch

BLOCK = 1024  # elements of a program at a time


@wt.jit
def channel_offsets(at, channel, channels, inner):
    """The offsets in (n, channels, inner) of the elements `at` of a channel."""
    return (at // inner).to(tl.int64) * channels * inner + channel * inner + at % inner


@wt.jit
def shifted_sums(x_ptr, partials_ptr, count, channels, inner, share, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """x: (n, channels, inner), count = n inner > 0; partials: (channels, 2, PARTS). Grid: (channels, PARTS) programs.

    A program adds x - x_0 and its square over `share` elements of a channel, x_0 the first.
    """
    channel, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    shift = tl.load(x_ptr + channel * inner).to(tl.float32)
    sums = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(part * share, tl.minimum(part * share + share, count), BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < tl.minimum(part * share + share, count)
        x = tl.load(x_ptr + channel_offsets(at, channel, channels, inner), mask=inside, other=0.0).to(tl.float32)
        x = tl.where(inside, x - shift, 0.0)
        sums += x
        squares += x * x
    tl.store(partials_ptr + channel * 2 * PARTS + part, tl.sum(sums, axis=0))
    tl.store(partials_ptr + channel * 2 * PARTS + PARTS + part, tl.sum(squares, axis=0))


@wt.jit
def normalise(
    x_ptr,
    partials_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    mean_ptr,
    var_ptr,
    count,
    channels,
    inner,
    share,
    eps,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """y: as x; mean, var: (channels); weight, bias: (channels) or None. Grid: (channels, PARTS) programs."""
    channel, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    every = partials_ptr + channel * 2 * PARTS + tl.arange(0, PARTS)
    centre = tl.sum(tl.load(every), axis=0) / count
    var = tl.maximum(tl.sum(tl.load(every + PARTS), axis=0) / count - centre * centre, 0.0)
    mean = tl.load(x_ptr + channel * inner).to(tl.float32) + centre
    if part == 0:
        tl.store(mean_ptr + channel, mean)
        tl.store(var_ptr + channel, var)
    scale = 1.0 / tl.sqrt_rn(var + eps)
    if weight_ptr is not None:
        scale *= tl.load(weight_ptr + channel).to(tl.float32)
    shift = 0.0
    if bias_ptr is not None:
        shift = tl.load(bias_ptr + channel).to(tl.float32)
    for first in range(part * share, tl.minimum(part * share + share, count), BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < tl.minimum(part * share + share, count)
        offsets = channel_offsets(at, channel, channels, inner)
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, ((x - mean) * scale + shift).to(y_ptr.dtype.element_ty), mask=inside)


def split(input: torch.Tensor) -> tuple[int, int, int, int, int]:
    """Elements of a channel, channels, inner; the parts of a channel, a power of two, and the elements of a part."""
    n, channels, inner = _launch.sizes(input)
    parts = 1 << (_launch.parts(input) - 1).bit_length()
    return n * inner, channels, inner, parts, cdiv(cdiv(n * inner, parts), BLOCK) * BLOCK


def launch(
    outputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> None:
    output, mean, var = outputs
    count, channels, inner, parts, share = split(input)
    if not count:  # a mean of no elements is NaN
        mean.fill_(float("nan"))
        var.fill_(float("nan"))
        return
    partials = mean.new_empty((channels, 2, parts))
    sizes = count, channels, inner, share
    shifted_sums[(channels, parts)](input, partials, *sizes, PARTS=parts, BLOCK=BLOCK)
    normalise[(channels, parts)](
        *(input, partials, weight, bias, output, mean, var, *sizes, eps), PARTS=parts, BLOCK=BLOCK
    )
