"""The operations of the convolutional network: the sizes at which they are timed, and which rung is the default."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tests.ops.conftest import problem

from warpwise import operation
from warpwise.lab.verify.impostors import require_no_impostor_at
from warpwise.operation import assume_sm_count

LARGEST = 1 << 14  # product of the sizes of a case; the largest size is halved until it fits
NAMES = (
    "conv2d", "conv2d_backward", "conv_block", "conv_block_backward", "batch_norm", "batch_norm_backward",
    "running_statistics", "max_pool2d", "max_pool2d_backward", "avg_pool2d", "avg_pool2d_backward", "cross_entropy",
    "cross_entropy_backward", "linear_cross_entropy", "linear_cross_entropy_backward", "linear_backward", "sgd",
    "gather_images",
)  # fmt: skip


def scaled(case):
    sizes = dict(case.sizes)
    while math.prod(sizes.values()) > LARGEST:
        largest = max(sizes, key=lambda name: sizes[name])
        sizes[largest] //= 2
    return replace(case, sizes=sizes)


@pytest.mark.parametrize("name", NAMES)
def test_a_timed_size_rejects_impostors(name):
    """A timed run is verified at its own size: zeros, constants and another seed's output must not pass there."""
    op = operation.get(name)
    for case in op.spec.sizes:
        require_no_impostor_at(problem(name, "cpu"), scaled(case), op.spec.dtypes[0], (0, 1))


def test_the_gradient_of_a_normalisation_is_not_its_input():
    """The gradient of equal ones is 0 but for eps, and zeros are then right."""
    op = operation.get("batch_norm_backward")
    for seed in range(3):
        grad_output, _, _, input, *_ = op.spec.arguments(op.spec.cases[0], torch.float32, torch.device("cpu"), seed)
        assert (grad_output - input).abs().mean() > 0.5


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def default(name, **given):
    op = operation.get(name)
    return op.default(*op.spec.parsed.bind((), given))


@pytest.mark.parametrize("channels,filters,rung", [(1, 16, "k04_implicit_gemm"), (3, 64, "k04_implicit_gemm"),
                                                   (16, 32, None)])  # fmt: skip
def test_a_convolution_of_long_sums_is_pytorchs(channels, filters, rung):
    for dtype, name in ((torch.float32, rung), (torch.bfloat16, None)):
        given = {"input": meta(8, channels, 28, 28, dtype=dtype), "weight": meta(filters, channels, 3, 3, dtype=dtype)}
        assert default("conv2d", **given, padding=(1, 1)) == name


@pytest.mark.parametrize("channels,rung", [(1, "k05_input_moments"), (64, "k04_direct_tiles"), (65, None)])
def test_a_block_of_many_channels_is_pytorchs(channels, rung):
    given = {"input": meta(8, channels, 14, 14), "weight": meta(32, channels, 3, 3)}
    assert default("conv_block", **given, gamma=meta(32), beta=meta(32)) == rung


def test_windows_side_by_side_have_their_own_rung():
    for name, other in (("max_pool2d", "k01_thread_per_window"), ("avg_pool2d", "k01_thread_per_window")):
        for side, size, rung in ((28, 2, "k03_halved"), (29, 2, other), (28, 3, other)):
            pairs = {"kernel_size": (size, size), "stride": (2, 2)}
            assert default(name, input=meta(2, 3, side, side), **pairs) == rung
    grad, shape = meta(2, 3, 13, 13), (2, 3, 28, 28)
    pairs = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (0, 0)}
    assert default("max_pool2d_backward", grad_output=grad, indices=grad.int(), shape_input=shape, **pairs) is None
    assert default("avg_pool2d_backward", grad_output=grad, shape_input=shape, **pairs) is None


def test_short_rows_of_a_channel_are_pytorchs():
    for shape, rung in (((64, 3, 8, 8), "k03_split_channels"), ((64, 3, 4, 4), None), ((64, 300), None)):
        assert default("batch_norm", input=meta(*shape)) == rung


def test_long_rows_of_a_loss_are_pytorchs():
    for classes, rung in ((10, "k03_lanes_per_row"), (50257, None)):
        given = {"input": meta(8, classes), "target": meta(8, dtype=torch.int64)}
        assert default("cross_entropy", **given) == rung


@pytest.mark.parametrize("sizes,sms", [
    ((1, 5, 6, 70, 3), 1), ((1, 2, 70, 6, 9), 1), ((3, 17, 34, 6, 34), 4), ((5, 1, 18, 7, 9), 3), ((1, 4, 3, 37, 2), 2),
])  # fmt: skip
@pytest.mark.parametrize("name", ["conv_block", "conv_block_backward", "conv2d", "conv2d_backward"])
def test_direct_tiles_of_wide_and_tall_images(name, sizes, sms):
    """Tiles that do not divide the image, in bands and sides, and parts of sums over several blocks."""
    op = operation.get(name)
    case = replace(op.spec.cases[0], sizes={**dict(zip("nchwk", sizes, strict=True)), "r": 3, "s": 3})
    instance = problem(name, "cpu").make(case, torch.float32, 0)
    outputs = op.allocate(*instance.args)
    with assume_sm_count(sms):
        op.launch(op.rung("direct_tiles"), outputs, *instance.args)
    for position, found in enumerate(instance.outputs(outputs, instance.args)):
        assert instance.compare(position, found).right, instance.results[position].name
