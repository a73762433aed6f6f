"""Grayscale and blur of images: rounding, colour layout, and the results of other implementations."""

from __future__ import annotations

import pytest
import torch

from warpwise import ops
from warpwise.ops.gaussian_blur.spec import reference as blur_reference
from warpwise.ops.gaussian_blur.weights import fixed_window, window
from warpwise.ops.rgb_to_grayscale.spec import reference as gray_reference


def test_every_tie_is_rounded_up():
    """PyTorch's float32 against integer arithmetic for each of the 2^24 colours within 1e-4 of a tie."""
    levels = torch.arange(256, dtype=torch.int32)
    sums = 2989 * levels[:, None, None] + 5870 * levels[:, None] + 1140 * levels
    near = ((sums % 10000 - 5000).abs() <= 1).nonzero()
    image = near.t().to(torch.uint8).unsqueeze(1).contiguous()
    assert image.shape[2] > 1000
    assert torch.equal(ops.rgb_to_grayscale(image).long(), gray_reference(image))


def test_white_stays_white_and_black_black():
    assert ops.rgb_to_grayscale(torch.full((3, 2, 2), 255, dtype=torch.uint8)).unique().tolist() == [255]
    assert ops.rgb_to_grayscale(torch.zeros(3, 2, 2, dtype=torch.uint8)).unique().tolist() == [0]


def test_an_array_from_a_decoder_needs_no_copy():
    decoded = torch.randint(0, 256, (5, 7, 3), dtype=torch.uint8)
    image = decoded.permute(2, 0, 1)
    gray = ops.rgb_to_grayscale(image)
    assert gray.shape == (1, 5, 7)
    assert torch.equal(gray, ops.rgb_to_grayscale(image.contiguous()))


def test_windows_sum_to_one():
    for taps in (1, 3, 9, 31, 127):
        assert abs(sum(window(taps, 0.15 * taps + 0.35)) - 1) < 1e-15
        assert sum(fixed_window(taps, 0.15 * taps + 0.35)) == 4096


@pytest.mark.parametrize("kernel_size", [1, 3, (5, 9), 15])
def test_fixed_point_blur_is_within_a_level_of_the_exact_one(kernel_size):
    """12-bit weights: at most half a level of rounding, and half a level of weights for windows up to 31 taps."""
    image = torch.randint(0, 256, (2, 3, 33, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    exact = ops.gaussian_blur(image.double(), kernel_size)
    assert (ops.gaussian_blur(image, kernel_size).double() - exact).abs().max() <= 1


def test_a_constant_image_stays_as_it_is():
    for value in (0, 1, 254, 255):
        image = torch.full((1, 16, 16), value, dtype=torch.uint8)
        assert torch.equal(ops.gaussian_blur(image, 9), image)


def test_blur_is_a_padded_convolution():
    """Against a two-dimensional convolution of the reflected image, written out."""
    image = torch.randn(1, 1, 12, 17, dtype=torch.float64)
    x, y = (torch.tensor(window(taps, 1.3), dtype=torch.float64) for taps in (5, 7))
    padded = torch.nn.functional.pad(image, (2, 2, 3, 3), mode="reflect")
    expected = torch.nn.functional.conv2d(padded, torch.outer(y, x)[None, None])
    torch.testing.assert_close(ops.gaussian_blur(image, (5, 7), 1.3), expected)
    torch.testing.assert_close(blur_reference(image, (5, 7), (1.3, 1.3)), expected)


def test_the_adjoint_is_the_adjoint():
    """<blur(x), y> = <x, adjoint(y)>, near the borders too, where reflection counts pixels twice."""
    x, y = torch.randn(2, 1, 6, 9, dtype=torch.float64), torch.randn(2, 1, 6, 9, dtype=torch.float64)
    left = (ops.gaussian_blur(x, (9, 7)) * y).sum()
    torch.testing.assert_close(left, (x * ops.gaussian_blur_backward(y, (9, 7))).sum())


def test_constant_memory_follows_the_window_that_is_asked_for():
    image = torch.randn(1, 9, 9)
    for taps in (3, 5, 3):
        torch.testing.assert_close(ops.gaussian_blur(image, taps, rung="k02"), ops.gaussian_blur(image, taps))
