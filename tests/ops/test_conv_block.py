"""conv_block with one input channel (gradients, far means, tall and wide images), and as separate operations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.ops.conftest import problem
from tests.sampled import combinations

from warpwise import operation, ops
from warpwise.operation import assume_sm_count
from warpwise.ops.conv_block import op

FORWARD, BACKWARD = operation.get("conv_block"), operation.get("conv_block_backward")
RUNG = "k05_input_moments"


def arguments(n, c, h, w, k, dtype=torch.float32):
    torch.manual_seed(n + h + w)
    return torch.randn(n, c, h, w, dtype=dtype), torch.randn(k, c, 3, 3, dtype=dtype), *torch.randn(2, k, dtype=dtype)


def launched(op, rung, *args):
    outputs = op.allocate(*args)
    op.launch(op.rung(rung), outputs, *args)
    return outputs


@pytest.mark.parametrize("channels", [1, 2])
def test_the_convolution_is_saved_for_several_channels(channels):
    args = (*arguments(2, channels, 4, 6, 3), 1e-5)
    assert (FORWARD.allocate(*args)[3] is None) == (channels == 1)
    output, mean, var = ops.conv_block(*args)
    grads = (torch.ones_like(output), None, None, None)
    if channels == 2:
        with pytest.raises(ValueError, match="expected convolved"):
            ops.conv_block_backward(*grads, *args, mean, var, None)
    else:
        assert ops.conv_block_backward(*grads, *args, mean, var, None, False)[0] is None


@pytest.mark.parametrize("op,channels", combinations([FORWARD, BACKWARD], [1, 2], names=[lambda op: op.name]))
def test_opcheck_with_and_without_a_saved_convolution(op, channels):
    case = replace(op.spec.cases[0], sizes=dict(zip("nchwk", (2, channels, 2, 4, 2), strict=True)))
    args = op.spec.arguments(case, torch.float32, torch.device("cpu"), 0)
    args = tuple(
        value.clone().requires_grad_() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in args
    )
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    operator = getattr(torch.ops.warpwise, op.name).default
    assert set(torch.library.opcheck(operator, args, test_utils=checks).values()) == {"SUCCESS"}


def test_gradients_of_several_channels():
    args = [tensor.requires_grad_() for tensor in arguments(2, 2, 2, 4, 2, torch.float64)]
    assert torch.autograd.gradcheck(lambda *values: ops.conv_block(*values), args, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *values: ops.conv_block(*values), args, fast_mode=True)


@pytest.mark.parametrize("sizes,sms", [
    ((9, 1, 4, 4, 3), 1), ((3, 1, 34, 6, 34), 4), ((1, 1, 5, 70, 9), 2), ((2, 1, 28, 28, 1), 3),
    ((1, 1, 2, 2048, 2), 1), ((11, 1, 28, 28, 2), 1),
])  # fmt: skip
@pytest.mark.parametrize("op", [FORWARD, BACKWARD], ids=["forward", "backward"])
@pytest.mark.one_in(3)
def test_tiles_of_one_channel(op, sizes, sms):
    """Bands of tall images, several images in a tile, several tiles in a block, filters that do not fill a warp."""
    case = replace(op.spec.cases[0], sizes=dict(zip("nchwk", sizes, strict=True)))
    if op is BACKWARD:
        case = replace(case, attributes={"needs_input": False})
    instance = problem(op.name, "cpu").make(case, torch.float32, 0)
    with assume_sm_count(sms):
        outputs = launched(op, RUNG, *instance.args)
    for position, found in enumerate(instance.outputs(outputs, instance.args)):
        assert instance.compare(position, found).right, instance.results[position].name


def test_wide_images_are_refused():
    wide = torch.empty(1, 1, 2, 2050, device="meta")
    assert "2048 columns" in FORWARD.unsupported(FORWARD.rung(RUNG), wide, *arguments(1, 1, 2, 2, 2)[1:], 1e-5)


@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_statistics_of_a_far_mean(mean):
    """A filter of the middle tap, whose response is the pixel: the border, where patches have zeros, adds nothing."""
    x, weight, gamma, beta = arguments(3, 1, 8, 8, 2)
    weight.zero_()[:, :, 1, 1] = 1
    x += mean
    _, found, var, _ = launched(FORWARD, RUNG, x, weight, gamma, beta, 1e-5, None)
    exact = x.double()
    torch.testing.assert_close(found.double(), exact.mean().expand(2), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(var.double(), exact.var(correction=0).expand(2), rtol=1e-5, atol=0)


def test_constant_images_have_no_variance_inside():
    x, weight, gamma, beta = torch.full((2, 1, 6, 6), 3.1), *arguments(2, 1, 6, 6, 2)[1:]
    weight.zero_()[:, :, 1, 1] = 1
    output, _, var, _ = launched(FORWARD, RUNG, x, weight, gamma, beta, 1e-5, None)
    assert (var <= 1e-10).all()
    torch.testing.assert_close(output, beta.relu().view(1, 2, 1, 1).expand_as(output), rtol=0, atol=1e-3)


def test_nan_reaches_every_output():
    x, weight, gamma, beta = arguments(2, 1, 4, 4, 2)
    x[1, 0, 2, 2] = torch.nan
    output, mean, var, _ = launched(FORWARD, RUNG, x, weight, gamma, beta, 1e-5, None)
    assert output.isnan().all() and mean.isnan().all() and var.isnan().all()


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
def test_separate_operations_are_the_block(format):
    """Outputs and gradients, also through the statistics, of the operations that compute blocks without a kernel."""
    torch.manual_seed(0)
    shapes = ((2, 3, 7, 6), (5, 3, 3, 3), (5,), (5,))
    given = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    given[0] = given[0].contiguous(memory_format=format)
    leaves = [tensor.requires_grad_() for tensor in given]
    both = [op._separate(*leaves, 1e-5, False), op.conv_block(*leaves)]
    gradients = [torch.autograd.grad(sum(part.square().sum() for part in made), leaves) for made in both]
    for left, right in zip((*both[0], *gradients[0]), (*both[1], *gradients[1]), strict=True):
        torch.testing.assert_close(left, right)
    assert both[0][0].is_contiguous(memory_format=format)


def test_separate_operations_are_differentiable_twice():
    """The node of the whole block computes its forward again; through unused statistics and needs of few arguments."""
    leaves = [tensor.double().requires_grad_() for tensor in arguments(2, 2, 5, 4, 3)]
    assert torch.autograd.gradgradcheck(lambda *given: op._separate(*given, 1e-5, False), leaves)
    assert torch.autograd.gradcheck(lambda *given: op._separate(*given, 1e-5, False), leaves)
    only = [tensor.detach().requires_grad_(at == 2) for at, tensor in enumerate(leaves)]
    made = op._separate(*only, 1e-5, False)[0]
    (grad,) = torch.autograd.grad(made.square().sum(), only[2])
    (expected,) = torch.autograd.grad(op.conv_block(*leaves)[0].square().sum(), leaves[2])
    torch.testing.assert_close(grad, expected)


def test_separate_operations_under_function_transforms():
    given = [tensor.double() for tensor in arguments(2, 2, 5, 4, 3)]

    def total(*args):
        return op._separate(*args, 1e-5, False)[0].square().sum()

    leaves = [tensor.clone().requires_grad_() for tensor in given]
    expected = torch.autograd.grad(total(*leaves), leaves)
    torch.testing.assert_close(torch.func.grad(total, argnums=(0, 1, 2, 3))(*given), expected)


def test_separate_operations_name_the_wrong_argument():
    x, weight, gamma, beta = arguments(2, 2, 5, 4, 3)
    with pytest.raises(ValueError, match="conv_block.*gamma"):
        op._separate(x, weight, gamma[:2], beta, 1e-5, False)
    with pytest.raises(ValueError, match="conv_block.*weight"):
        op._separate(x, weight[:, :1], gamma, beta, 1e-5, False)
