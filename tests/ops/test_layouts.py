"""The strides of results equal PyTorch's for any strides of the arguments: sliced, expanded, permuted, sizes of 1."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from warpwise import ops
from warpwise.arguments.layout import has_nhwc_strides, in_format
from warpwise.device.target import assume_sm_count
from warpwise.operation import get
from warpwise.ops.batch_norm import _launch

NHWC = torch.channels_last
SIZES = st.sampled_from((1, 1, 2, 3, 5))


@st.composite
def images(draw, shape=None, dtype=torch.float32):
    """A tensor (N, C, H, W): of either order with or without gaps, of permuted dimensions, or expanded."""
    n, c, h, w = draw(st.tuples(SIZES, SIZES, SIZES, SIZES)) if shape is None else shape
    kind = draw(st.sampled_from(("nchw", "nhwc", "sliced", "permuted", "expanded")))
    format = draw(st.sampled_from((torch.contiguous_format, NHWC)))
    if kind == "permuted":
        order = draw(st.permutations(range(4)))
        made = torch.empty([(n, c, h, w)[dim] for dim in order], dtype=dtype)
        made = made.permute([order.index(dim) for dim in range(4)])
    elif kind == "expanded":
        kept = [size if draw(st.booleans()) else 1 for size in (n, c, h, w)]
        made = torch.empty(kept, dtype=dtype, memory_format=format).expand(n, c, h, w)
    elif kind == "sliced":
        more = draw(st.tuples(*[st.integers(0, 2)] * 4))
        whole = torch.empty([size + gap for size, gap in zip((n, c, h, w), more, strict=True)], dtype=dtype,
                            memory_format=format)  # fmt: skip
        made = whole[:n, :c, :h, :w]
    else:
        made = torch.empty((n, c, h, w), dtype=dtype, memory_format=NHWC if kind == "nhwc" else torch.contiguous_format)
    return made.copy_(torch.rand(n, c, h, w)) if kind != "expanded" else made.zero_()


def same(found, expected):
    assert [(tuple(one.shape), one.stride()) for one in found] == [(tuple(one.shape), one.stride()) for one in expected]


@given(st.tuples(*[st.integers(0, 3)] * 4), st.tuples(*[st.sampled_from((0, 1, 2, 3, 4, 6, 9, 12))] * 4))
@settings(max_examples=300, deadline=None)
def test_the_rule_is_pytorchs(shape, strides):
    """A conversion to a format returns the tensor itself if that is the suggested format."""
    tensor = torch.empty_strided(shape, strides)
    assert has_nhwc_strides(tensor) == (tensor.to(memory_format=NHWC) is tensor)


@given(images(), st.sampled_from((torch.contiguous_format, NHWC)))
@settings(max_examples=300, deadline=None)
def test_a_converted_tensor_has_the_strides_of_a_new_one(tensor, format):
    converted = in_format(tensor, format)
    same([converted], [torch.empty(tensor.shape, memory_format=format)])
    assert torch.equal(converted, tensor)


@given(images(), st.sampled_from((1, 2)), st.sampled_from((0, 1)), st.data())
@settings(max_examples=25, deadline=None)
def test_pooling(input, stride, padding, data):
    x = input.detach().requires_grad_(input.is_leaf)
    for ours, theirs in ((ops.max_pool2d, functional.max_pool2d), (ops.avg_pool2d, functional.avg_pool2d)):
        size = min(2, *(side + 2 * padding for side in x.shape[2:]))
        if padding > size // 2:
            return
        found, expected = ours(x, size, stride, padding), theirs(x, size, stride, padding)
        same([found], [expected])
        grad = data.draw(images(found.shape))
        same(torch.autograd.grad(found, x, grad), torch.autograd.grad(expected, x, grad))
        relu = ops.max_pool2d(x, size, stride, padding, relu=True)
        same([relu], [functional.max_pool2d(x, size, stride, padding)])


@given(images(), st.sampled_from(((1, 1), (3, 1), (4, 3))), st.booleans(), st.data())
@settings(max_examples=25, deadline=None)
def test_convolutions(input, filters, grouped, data):
    count, side = filters
    groups = input.shape[1] if grouped else 1
    weight = data.draw(images((count * groups, input.shape[1] // groups, side, side)))
    settings = [1, 1], [side // 2] * 2, [1, 1]
    if weight[0].numel() == 1 and has_nhwc_strides(weight):
        return  # PyTorch copies such filters, and with them loses their order
    expected = torch.conv2d(input, weight, None, *settings, groups)
    same([ops.conv2d(input, weight, None, *settings, groups)], [expected])
    grad = data.draw(images(expected.shape))
    mask = [True, True, False]
    found = ops.conv2d_backward(grad, input, weight, None, *settings, groups)
    pulled = torch.ops.aten.convolution_backward(
        grad, input, weight, None, *settings, False, [0, 0], groups, mask
    )  # fmt: skip
    same(found[:2], pulled[:2])


@given(images(), st.data())
@settings(max_examples=25, deadline=None)
def test_batch_norm(input, data):
    """As cuDNN's, which follows the rule; PyTorch's kernel for CPUs keeps the strides of permuted dimensions."""
    parameters = torch.ones(input.shape[1]), torch.zeros(input.shape[1])
    output, mean, var = ops.batch_norm(input, *parameters)
    expected = functional.max_pool2d(input, 1)
    same([output], [expected])
    grad = data.draw(images(input.shape))
    found = ops.batch_norm_backward(grad, None, None, input, *parameters, 1e-5, mean, var)
    same(found[:1], [expected])


@given(images(), st.data())
@settings(max_examples=15, deadline=None)
def test_blocks(input, data):
    if min(input.shape[2:]) < 2:
        return
    weight = data.draw(images((3, input.shape[1], 3, 3)))
    x, w = (one.detach().requires_grad_() for one in (input, weight))
    found = ops.conv_block(x, w, torch.ones(3), torch.zeros(3))[0]
    expected = functional.max_pool2d(torch.conv2d(x, w, padding=1), 2)
    same([found], [expected])
    grad = data.draw(images(found.shape))
    same(torch.autograd.grad(found, (x, w), grad), torch.autograd.grad(expected, (x, w), grad))


CALLS = {
    "conv2d": lambda x, w: ops.conv2d(x, w, None, 1, 1),
    "conv2d_backward": lambda x, w: ops.conv2d_backward(ops.conv2d(x, w, None, 1, 1), x, w, None, 1, 1)[:2],
    "batch_norm": lambda x, w: ops.batch_norm(x)[0],
    "max_pool2d": lambda x, w: ops.max_pool2d(x, 2, 1),
    "avg_pool2d": lambda x, w: ops.avg_pool2d(x, 2, 1),
    "conv_block": lambda x, w: ops.conv_block(x, w, x.new_ones(3), x.new_ones(3))[0],
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("channels", [1, 2])
def test_fake_kernels_and_compiled_graphs_have_these_strides(name, channels):
    x, w = torch.rand(2, channels, 4, 6).to(memory_format=NHWC), torch.rand(3, channels, 3, 3)
    expected = CALLS[name](x, w)
    compiled = torch.compile(CALLS[name], backend="aot_eager", fullgraph=True)(x, w)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = CALLS[name](mode.from_tensor(x), mode.from_tensor(w))
    given = [one if isinstance(one, tuple) else (one,) for one in (expected, compiled, fake)]
    same(given[1], given[0])
    same(given[2], given[0])
    assert all(has_nhwc_strides(one) for one in given[0])


def test_the_choice_where_both_orders_are_without_gaps():
    """One channel is read as NCHW, images of one pixel as rows of channels; both results have PyTorch's strides."""
    pixels = torch.empty(64, 300, 1, 1, device="meta")
    for one in (pixels, torch.empty_like(pixels, memory_format=NHWC)):
        assert _launch.in_rows(one) and get("batch_norm").default(one, None, None, 0.0) == "k07_partial_sums"
    image = torch.empty(64, 1, 28, 28, device="meta", memory_format=NHWC)
    weight = torch.empty(16, 1, 3, 3, device="meta")
    settings = (1, 1), (1, 1), (1, 1), 1, False
    with assume_sm_count(132):
        assert get("batch_norm").default(image, None, None, 0.0) == "k08_channel_parts"
        assert get("conv2d").default(image, weight, None, *settings) == "k07_nhwc"
        assert (
            get("conv2d").default(torch.empty(image.shape, device="meta"), weight, None, *settings)
            == "k04_implicit_gemm"
        )
        assert get("conv_block").default(image, weight, weight, weight, 0.0, None) == "k05_input_moments"
        assert get("conv_block").default(image.expand(-1, 2, -1, -1).to(memory_format=NHWC), weight, weight, weight,
                                         0.0, None) is None  # fmt: skip
