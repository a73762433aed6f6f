"""TMA in im2col mode: pixels of images, with offsets, padding, steps and swizzles, beside a model in PyTorch."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.cuda.hopper.test_bulk_copies import loading_kernel, swizzled

from warpwise import cuda


def loads(dimensions: int) -> cuda.Kernel:
    """out = the pixels from (x[0], x[1], ...), offset by x[dimensions], ..., in the order of shared memory."""
    return loading_kernel(dimensions, "im2col")


def model(tensor, pixels, channels, lower, upper, steps, first, offset):
    """The rows of channels: base pixels of the bounding box from ``first`` on, the last dimension fastest."""
    sizes = tensor.shape[1:-1]
    ranges = [range(low, size + high, step) for low, high, size, step in zip(lower, upper, sizes, steps, strict=True)]
    image, *start, channel = first
    every = [(n, *place) for n in range(image, tensor.shape[0] + 2) for place in itertools.product(*ranges)]
    begin = every.index((image, *start))
    rows = torch.zeros(pixels, channels, dtype=tensor.dtype)
    for row, (n, *place) in enumerate(every[begin : begin + pixels]):
        at = [p + o for p, o in zip(place, offset, strict=True)]
        if n < tensor.shape[0] and all(0 <= p < size for p, size in zip(at, sizes, strict=True)):
            taken = tensor[(n, *at)][channel : channel + channels]
            rows[row, : len(taken)] = taken
    return rows


@pytest.mark.parametrize(
    "shape,pixels,channels,lower,upper,steps,first,offset,span",
    [
        ((3, 9, 64), 12, 64, (-1,), (-1,), (1,), (0, -1, 0), (2,), 128),
        ((2, 5, 6, 32), 20, 32, (-1, -1), (-1, -1), (1, 1), (0, -1, -1, 0), (0, 2), 64),
        ((2, 5, 6, 32), 20, 16, (-1, -1), (-1, -1), (1, 1), (1, 2, 3, 16), (2, 1), 32),
        ((2, 8, 8, 24), 16, 24, (-1, -1), (-1, -1), (2, 2), (0, 1, 1, 0), (1, 1), 0),
        ((2, 3, 4, 5, 16), 30, 8, (-1, 0, -1), (-1, 0, -1), (1, 1, 1), (0, 0, 1, -1, 8), (2, 0, 1), 0),
    ],
    ids=["3-D", "4-D", "4-D inside", "4-D with steps", "5-D"],
)
def test_pixels_are_loaded(shape, pixels, channels, lower, upper, steps, first, offset, span):
    tensor = torch.randn(shape).half()
    wanted = swizzled(model(tensor, pixels, channels, lower, upper, steps, first, offset), span)
    out = torch.empty(wanted.numel() // 4, dtype=torch.int32)
    x = torch.tensor([*first[::-1], *offset[::-1]], dtype=torch.int32)
    made = cuda.im2col_map(tensor, pixels, channels, lower, upper, steps, swizzle=span)
    loads(len(shape))[1, 32, wanted.numel()](made, x, cuda.out(out), wanted.numel())
    assert torch.equal(out.view(torch.uint8), wanted)


def test_a_map_of_the_other_mode_is_found():
    tensor = torch.randn(2, 5, 6, 32).half()
    x, out = torch.zeros(6, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    with pytest.raises(cuda.UndefinedBehaviour, match=r"im2col.* with a tiled tensor map \(cuda.tensor_map\)"):
        loads(4)[1, 32, 256](cuda.tensor_map(tensor, (1, 1, 4, 32), swizzle=64), x, out, 256)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"pixels": 2000}, "1 to 1024 pixels"),
        ({"lower": (0,)}, "lower to hold 2 numbers"),
        ({"upper": (0, 200)}, "upper to hold 2 numbers from -128 to 127"),
        ({"steps": (0, 1)}, "steps to hold 2 numbers from 1 to 8"),
        ({"channels": 200}, "box\\[-1\\] of at most 64 elements"),
    ],
)
def test_arguments_that_tma_does_not_support_raise(options, message):
    given = {"pixels": 8, "channels": 16, "lower": (0, 0), "upper": (0, 0)} | options
    with pytest.raises(cuda.ArgumentError, match=message):
        cuda.im2col_map(torch.zeros(2, 5, 6, 256).half(), **given)
