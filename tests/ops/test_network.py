"""The operations of the convolutional network: the sizes at which they are timed, and which rung is the default."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tests.ops.conftest import problem

from warpwise import lab, operation
from warpwise.lab.verify.impostors import require_no_impostor_at
from warpwise.operation import assume_sm_count
from warpwise.ops import _conv3x3
from warpwise.ops.batch_norm import _launch
from warpwise.ops.conv_block.backward.rungs import is_serial
from warpwise.ops.conv_block.forward.rungs import is_idle

LARGEST = 1 << 14  # product of the sizes of a case; the largest size is halved until it fits
NAMES = (
    "conv2d", "conv2d_backward", "conv_block", "conv_block_backward", "batch_norm", "batch_norm_backward",
    "running_statistics", "max_pool2d", "max_pool2d_backward", "avg_pool2d", "avg_pool2d_backward", "cross_entropy",
    "cross_entropy_backward", "linear_cross_entropy", "linear_cross_entropy_backward",
    "linear_cross_entropy_gradients", "block_cross_entropy_gradients", "linear_backward", "sgd",
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
                                                   (17, 32, None)])  # fmt: skip
def test_a_convolution_of_long_sums_is_pytorchs(channels, filters, rung):
    for images, dtype, name in ((128, torch.float32, rung), (4, torch.float32, rung), (128, torch.bfloat16, None)):
        x, weight = (meta(*shape, dtype=dtype) for shape in ((images, channels, 28, 28), (filters, channels, 3, 3)))
        little = rung is not None and images == 4
        assert default("conv2d", input=x, weight=weight, padding=(1, 1)) == ("k08_four_pixels" if little else name)
        x = torch.empty_like(x, memory_format=torch.channels_last)
        assert default("conv2d", input=x, weight=weight, padding=(1, 1)) == (name and "k07_nhwc")


def test_groups_of_few_filters_and_tf32_choose_the_rung_of_a_short_sum():
    x, few, many = meta(64, 32, 30, 30), "k08_four_pixels", "k04_implicit_gemm"
    for groups, filters, rung in ((32, 32, few), (8, 32, few), (8, 64, many), (1, 32, None)):
        given = {"input": x, "weight": meta(filters, 32 // groups, 3, 3), "groups": groups, "padding": (1, 1)}
        assert default("conv2d", **given) == rung
        assert default("conv2d", **given, tf32=True) == (rung if groups == 32 else None)
        image = torch.empty_like(x, memory_format=torch.channels_last)
        assert default("conv2d", **given | {"input": image}) is None


def test_nhwc_images_of_few_tiles_or_long_sums_are_pytorchs():
    for images, channels, filters, tf32, rung in (
        (4, 3, 16, True, "k07_nhwc"), (4, 3, 17, False, None), (64, 3, 17, False, "k07_nhwc"),
        (4, 6, 16, False, None), (64, 6, 16, False, "k07_nhwc"), (64, 6, 16, True, None), (64, 7, 16, False, None),
    ):  # fmt: skip
        x = torch.empty_like(meta(images, channels, 28, 28), memory_format=torch.channels_last)
        weight = meta(filters, channels, 3, 3)
        assert default("conv2d", input=x, weight=weight, padding=(1, 1), tf32=tf32) == rung


@pytest.mark.parametrize("images,channels,filters,tf32,rung", [
    (128, 16, 32, False, "k05_direct_tiles"), (128, 16, 32, True, None), (127, 16, 32, False, None),
    (128, 17, 32, False, None), (128, 16, 33, False, None),
])  # fmt: skip
def test_a_convolution_of_few_channels_and_many_pixels_has_direct_tiles(images, channels, filters, tf32, rung):
    given = {"input": meta(images, channels, 14, 14), "weight": meta(filters, channels, 3, 3), "tf32": tf32}
    assert default("conv2d", **given, padding=(1, 1)) == rung


@pytest.mark.parametrize("channels,rung", [(1, "k05_input_moments"), (64, "k07_warpgroups"), (65, None)])
def test_a_block_of_many_channels_is_pytorchs(channels, rung):
    given = {"input": meta(8, channels, 14, 14), "weight": meta(32, channels, 3, 3)}
    assert default("conv_block", **given, gamma=meta(32), beta=meta(32)) == rung


@pytest.mark.parametrize("images,channels,filters,width,forward,backward", [
    (64, 16, 32, 14, "k07_warpgroups", "k03_direct_tiles"), (128, 16, 32, 14, "k07_warpgroups", "k06_tensor_cores"),
    (512, 16, 32, 14, "k07_warpgroups", "k09_bf16x3"), (512, 16, 32, 15, "k07_warpgroups", "k06_tensor_cores"),
    (512, 16, 64, 14, "k07_warpgroups", "k03_direct_tiles"), (512, 16, 36, 9, "k07_warpgroups", "k03_direct_tiles"),
    (512, 17, 32, 14, "k07_warpgroups", "k07_stored_gradient"),
    (512, 8, 32, 14, "k07_warpgroups", "k03_direct_tiles"),
    (64, 32, 64, 16, "k07_warpgroups", "k06_tensor_cores"), (300, 32, 64, 16, "k07_warpgroups", "k07_stored_gradient"),
    (300, 17, 40, 16, "k04_direct_tiles", "k03_direct_tiles"),
    (512, 16, 32, 225, "k04_direct_tiles", "k03_direct_tiles"),
])  # fmt: skip
def test_tensor_cores_compute_blocks_that_fill_their_tiles(images, channels, filters, width, forward, backward):
    input, weight = meta(images, channels, 14, width), meta(filters, channels, 3, 3)
    block = {"input": input, "weight": weight, "gamma": meta(filters), "beta": meta(filters), "eps": 1e-5}
    assert default("conv_block", **block) == forward
    grads = dict.fromkeys(("grad_output", "grad_mean", "grad_var", "grad_convolved"))
    saved = {"mean": meta(filters), "var": meta(filters), "convolved": meta(images, filters, 14, width)}
    with assume_sm_count(132):
        assert default("conv_block_backward", **grads, **block, **saved) == backward


def nhwc(tensor):
    return tensor.contiguous(memory_format=torch.channels_last)


def test_windows_side_by_side_have_their_own_rung():
    vectors = "k04_channel_vectors"
    for name in ("max_pool2d", "avg_pool2d"):
        for side, size, rung in ((28, 2, "k03_halved"), (29, 2, vectors), (28, 3, vectors)):
            pairs = {"kernel_size": (size, size), "stride": (2, 2)}
            for dtype, expected in ((torch.float32, rung), (torch.bfloat16, rung), (torch.float64, None)):
                assert default(name, input=meta(2, 3, side, side, dtype=dtype), **pairs) == expected
            assert default(name, input=nhwc(meta(2, 3, side, side)), **pairs) == vectors
            strided = default(name, input=meta(2, 3, side, 2 * side)[..., ::2], **pairs)
            assert strided in ("k03_halved", "k01_thread_per_window")
    shape = (2, 3, 28, 28)
    for size, grad in ((3, meta(2, 3, 13, 13)), (2, nhwc(meta(2, 3, 14, 14)))):
        pairs = {"kernel_size": (size, size), "stride": (2, 2), "padding": (0, 0)}
        given = {"grad_output": grad, "shape_input": shape, **pairs}
        assert default("max_pool2d_backward", indices=grad.int(), **given) == "k03_channel_vectors"
        assert default("avg_pool2d_backward", **given) == "k03_channel_vectors"


def test_the_layout_of_a_batch_and_the_length_of_its_channels_choose_the_rung():
    for input, rung, backward in (
        (meta(64, 3, 224, 224), "k08_channel_parts", "k08_channel_parts"),
        (meta(64, 3, 8, 8), "k05_whole_channel", "k04_whole_channel"),
        (meta(64, 300, 64, 64), "k05_whole_channel", "k04_whole_channel"),
        (meta(64, 3, 2, 2), None, "k04_whole_channel"), (meta(64, 300), "k07_partial_sums", "k07_partial_sums"),
        (nhwc(meta(64, 3, 8, 8)), "k07_partial_sums", "k07_partial_sums"), (meta(4, 3, 8, 8).double(), None, None),
    ):  # fmt: skip
        with assume_sm_count(132):
            assert default("batch_norm", input=input) == rung
        statistics = {name: meta(input.shape[1]) for name in ("mean", "var")}
        grads = {"grad_output": input, "grad_mean": None, "grad_var": None}
        given = {**grads, "input": input, "weight": None, "bias": None, "eps": 0.0, **statistics}
        with assume_sm_count(132):
            assert default("batch_norm_backward", **given) == backward


def test_images_that_no_vector_divides_are_read_by_vectors_of_four():
    for shape, dtype, found in (
        ((98, 80, 23, 7), torch.float32, (4, True, 98 * 41)), ((5, 3, 23, 7), torch.bfloat16, (4, True, 5 * 41)),
        ((5, 3, 6, 7), torch.float32, (2, False, 105)), ((5, 3, 4, 9), torch.bfloat16, (4, False, 45)),
        ((5, 3, 3, 1), torch.float32, (1, False, 15)),
    ):  # fmt: skip
        assert _launch.image_vectors(meta(*shape, dtype=dtype), shift_halves=True) == found


def test_large_rows_are_read_by_wide_tiles():
    """Lanes of a row: all vectors of 72 channels, a power of two where few lanes are idle, and half of 224 channels."""
    with assume_sm_count(132):
        for shape, across in (
            ((21, 72, 33, 65), 18),
            ((16, 30, 40, 122), 16),
            ((28, 224, 105, 7), 28),
            ((2, 72, 9, 9), 4),
        ):
            assert _launch.rows_of_parts(nhwc(meta(*shape))).across == across


def test_few_images_divide_the_filters_of_a_gradient():
    """Of dx: without splits for many tiles, or small sums; a block of separate operations where k06 has few blocks."""
    for shape, filters, splits in (((128, 16, 14, 14), 32, 1), ((6, 1, 18, 5), 216, 27), ((2, 3, 17, 19), 300, 19)):
        assert _conv3x3.inputs(*shape, filters, 132).splits == splits
    for shape, filters, serial in (
        ((128, 32, 14, 14), 64, False), ((2, 64, 21, 12), 328, True), ((16, 32, 29, 27), 128, False),
        ((2, 64, 21, 12), 32, False), ((6, 1, 18, 5), 216, False), ((421, 39, 5, 29), 128, False),
    ):  # fmt: skip
        assert is_serial(*shape, filters, 132) == serial
    for shape, filters, idle in (
        ((352, 48, 7, 6), 8, True),
        ((128, 16, 14, 14), 32, False),
        ((300, 3, 33, 31), 65, False),
        ((25, 8, 6, 4), 512, True),
        ((12, 10, 9, 9), 256, False),
        ((100, 8, 4, 4), 512, True),
    ):
        assert is_idle(*shape, filters, 132) == idle


def test_long_rows_of_a_loss_are_pytorchs():
    for classes, rung in ((10, "k03_lanes_per_row"), (50257, None)):
        given = {"input": meta(8, classes), "target": meta(8, dtype=torch.int64)}
        assert default("cross_entropy", **given) == rung


TILED = [
    ("direct_tiles", name, sizes, sms)
    for name in ("conv_block", "conv_block_backward", "conv2d", "conv2d_backward")
    for sizes, sms in (
        ((1, 5, 6, 70, 3), 1), ((1, 2, 70, 6, 9), 1), ((3, 17, 34, 6, 34), 4), ((5, 1, 18, 7, 9), 3),
        ((1, 4, 3, 37, 2), 2),
    )
] + [
    (rung, name, sizes, sms)
    for rung, name in (
        ("tensor_cores", "conv_block"), ("tensor_cores", "conv_block_backward"), ("warpgroups", "conv_block")
    )
    for sizes, sms in (
        ((1, 3, 6, 113, 3), 1), ((3, 18, 17, 15, 33), 1), ((3, 17, 34, 6, 16), 2), ((2, 100, 3, 4, 2), 1),
        ((9, 16, 6, 6, 32), 1),
    )
] + [
    ("bf16x3", "conv_block_backward", sizes, sms)
    for sizes, sms in (((3, 18, 16, 14, 27), 1), ((2, 100, 4, 4, 2), 1), ((3, 16, 6, 6, 32), 4))
]  # fmt: skip


@pytest.mark.parametrize("rung,name,sizes,sms", TILED)
@pytest.mark.one_in(4)
def test_tiles_of_wide_and_tall_images(rung, name, sizes, sms):
    """Tiles that do not divide the image, in bands and sides, and parts of sums over several blocks."""
    launch_tiles(rung, name, sizes, sms)


@pytest.mark.parametrize("name", ["conv_block", "conv2d_backward"])
def test_bands_whose_pixels_no_vector_divides(name):
    """The second of two bands of 18 rows of 5 pixels begins within a vector of the first."""
    launch_tiles("direct_tiles", name, (1, 5, 36, 5, 5), 1)


def launch_tiles(rung, name, sizes, sms):
    op = operation.get(name)
    case = replace(op.spec.cases[0], sizes={**dict(zip("nchwk", sizes, strict=True)), "r": 3, "s": 3})
    instance = problem(name, "cpu").make(case, torch.float32, 0)
    outputs = op.allocate(*instance.args)
    with assume_sm_count(sms):
        op.launch(op.rung(rung), outputs, *instance.args)
    for position, found in enumerate(instance.outputs(outputs, instance.args)):
        assert instance.compare(position, found).right, instance.results[position].name


HUGE = (math.inf, math.nan, torch.finfo(torch.float32).max, 2.0**120)


def with_huge_value(value):
    """Images with one such value, and filters of four."""
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(*shape, generator=generator) for shape in ((3, 5, 6, 8), (4, 5, 3, 3)))
    x[1, 3, 2, 2] = value
    return x, w * 2.0**-5, torch.randn(3, 4, 6, 8, generator=generator)


@pytest.mark.parametrize("rung", ["tensor_cores", "warpgroups"])
@pytest.mark.parametrize("value", HUGE)
def test_tensor_cores_keep_infinity_nan_and_huge_values(rung, value):
    """A block whose values do not have two finite parts of TF32 multiplies in float32; the other blocks do not."""
    block = operation.get("conv_block")
    x, w, _ = with_huge_value(value)
    args = (x, w, torch.ones(4), torch.zeros(4), 1e-5, None)
    outputs = block.allocate(*args)
    block.launch(block.rung(rung), outputs, *args)
    expected = torch.nn.functional.conv2d(x.double(), w.double(), padding=1).float()
    torch.testing.assert_close(outputs[3], expected, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("rung", ["tensor_cores", "bf16x3"])
@pytest.mark.parametrize("value", HUGE)
def test_gradients_on_tensor_cores_keep_infinity_nan_and_huge_values(rung, value):
    backward = operation.get("conv_block_backward")
    x, w, grads = with_huge_value(value)  # the gradient of the convolution; the others are None
    statistics = (torch.zeros(4), torch.ones(4), torch.zeros(3, 4, 6, 8))
    given = (None, None, None, grads, x, w, torch.ones(4), torch.zeros(4), 1e-5, *statistics, True, None, None)
    found = backward.allocate(*given)
    backward.launch(backward.rung(rung), found, *given)
    dx, dw, _ = torch.ops.aten.convolution_backward(
        grads.double(), x.double(), w.double(), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False]
    )
    torch.testing.assert_close(found[0], dx.float(), rtol=1e-5, atol=1e-5)
    assert found[1].isfinite().equal(dw.float().isfinite()) and found[1].isnan().equal(dw.isnan())
    ordinary = dw.float().isfinite()
    scale = dw[ordinary].abs().max().item()
    torch.testing.assert_close(found[1][ordinary], dw.float()[ordinary], rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("name", ["batch_norm", "batch_norm_backward"])
def test_blocks_of_large_tensors_normalise_rows(name, monkeypatch):
    """512 threads, in tiles of several widths: 18 vectors of four channels, one vector, and single channels."""
    monkeypatch.setattr(_launch, "MANY_BYTES", 0)
    op = operation.get(name)
    cases = [replace(op.spec.cases[0], name=f"{c}_channels", sizes={"n": 2, "c": c, "h": 13, "w": 11},
                     layout="channels_last") for c in (72, 4, 3)]  # fmt: skip
    verdict = lab.verify(
        op, op.rung("k07_partial_sums"), device="cpu", dtypes=(torch.float32,), cases=cases, seeds=(0,),
    )  # fmt: skip
    assert verdict.right, str(verdict)
