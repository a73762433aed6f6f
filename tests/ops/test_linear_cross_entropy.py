"""linear_cross_entropy and linear_backward beside PyTorch's functions, and the errors of their arguments."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from warpwise import ops
from warpwise.ops.conv_block.backward import rungs as block_backward
from warpwise.ops.conv_block.forward import rungs as block_forward
from warpwise.ops.conv_block.op import CONV_BLOCK_BACKWARD

GPU = pytest.param("cuda", marks=pytest.mark.gpu)
RUNGS = ["k01", "k03", "k04"]


def given(n=9, k=12, classes=5, device="cpu"):
    generator = torch.Generator().manual_seed(n)
    shapes = {"input": (n, k), "linear_weight": (classes, k), "linear_bias": (classes,)}
    made = {name: torch.randn(shape, generator=generator).to(device) for name, shape in shapes.items()}
    return made | {"target": torch.randint(0, classes, (n,), generator=generator).to(device)}


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("biased", [True, False])
def test_the_loss_and_its_gradients_are_torchs(device, biased):
    """Some rows are ignored; a loss is multiplied before the backward, as for several losses."""
    made = given(device=device)
    made["target"][:2] = -100
    made["linear_bias"] = made["linear_bias"] if biased else None
    found = []
    for function in (ops.linear_cross_entropy, reference):
        floats = [name for name in made if name != "target" and made[name] is not None]
        leaves = {name: made[name].clone().requires_grad_() for name in floats}
        (function(**{**made, **leaves}) * 3).backward()
        found.append([leaf.grad for leaf in leaves.values()])
    torch.testing.assert_close(*found)


def reference(input, linear_weight, target, linear_bias):
    return functional.cross_entropy(functional.linear(input, linear_weight, linear_bias), target)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_of_a_batch_without_counted_rows_is_zero(dtype):
    """As in PyTorch: the loss is NaN, and a step with its gradient keeps the weights."""
    logits, target = torch.randn(3, 5, dtype=dtype, requires_grad=True), torch.full((3,), -100)
    loss = ops.cross_entropy(logits, target)
    assert loss.isnan()
    for wanted in (
        torch.autograd.grad(loss, logits),
        torch.autograd.grad(reference(logits, torch.eye(5, dtype=dtype), target, None), logits),
    ):
        assert torch.equal(*wanted, torch.zeros_like(logits))


@pytest.mark.parametrize("rung", RUNGS)
def test_targets_that_are_no_class(rung):
    """NaN for a target outside of [0, C), and for no counted row; an ignored class may be any number."""
    made = given()
    made["target"][3] = 5
    assert ops.linear_cross_entropy(**made, rung=rung).isnan()
    ignored = ops.linear_cross_entropy(**made, ignore_index=5, rung=rung)
    torch.testing.assert_close(ignored, ops.linear_cross_entropy(**made, ignore_index=5))
    made["target"][:] = -100
    assert ops.linear_cross_entropy(**made, rung=rung).isnan()


@pytest.mark.parametrize("change,message", [
    ({"input": torch.ones(9, 11)}, r"expected linear_weight \(C, 11\) for input \(9, 11\), got \(5, 12\)"),
    ({"target": torch.zeros(8, dtype=torch.int64)}, "expected 9 targets, one for each row of input, got 8"),
    ({"linear_weight": torch.ones(0, 12)}, r"expected linear_weight of at least one class, got \(0, 12\)"),
    ({"linear_bias": torch.ones(4)}, r"expected linear_bias of shape \(5,\), got \(4,\)"),
])  # fmt: skip
def test_arguments_that_do_not_fit(change, message):
    with pytest.raises(ValueError, match=f"linear_cross_entropy: {message}"):
        ops.linear_cross_entropy(**{**given(), **change})


def test_matrices_of_linear_backward_that_do_not_fit():
    dy, x, w = torch.ones(3, 4), torch.ones(3, 5), torch.ones(4, 5)
    with pytest.raises(
        ValueError, match=r"input \(M, K\) and weight \(N, K\), got grad_output \(3, 4\), input \(4, 5\)"
    ):
        ops.linear_backward(dy, w, w)
    with pytest.raises(ValueError, match="expected relu_output of grad_output's shape"):
        ops.linear_backward(dy, x, w, torch.ones(3, 5))


@pytest.mark.gpu
@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_the_gradients_of_a_small_layer_on_a_gpu(activation):
    """They are those of ``linear_backward``, whose launch applies the derivative of relu."""
    activate = {None: lambda value: value, "relu": torch.relu, "gelu": functional.gelu}[activation]
    found = []
    for function in (
        lambda x, w, b: ops.linear(x, w, b, activation),
        lambda x, w, b: activate(functional.linear(x, w, b)),
    ):
        generator = torch.Generator().manual_seed(0)
        shapes = ((100, 60), (70, 60), (70,))
        leaves = [torch.randn(shape, generator=generator).cuda().requires_grad_() for shape in shapes]
        (function(*leaves) * torch.linspace(-1, 1, 70, device="cuda")).sum().backward()
        found.append([leaf.grad for leaf in leaves])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("of_block, sizes", [
    (block_backward.direct_tiles, (5, 3, 6, 8, 20)), (block_backward.tensor_cores, (17, 5, 8, 6, 128)),
])  # fmt: skip
def test_the_end_of_a_network_is_torchs(of_block, sizes):
    """Its gradients, and those of the block before it from its sums of channels; one factor gamma is small."""
    n, c, k, side, units = sizes
    generator = torch.Generator().manual_seed(n)
    shapes = (n, c, side, side), (k, c, 3, 3), (k,), (k,), (units, k * (side // 2) ** 2), (units,), (10, units), (10,)
    leaves = [torch.randn(shape, generator=generator) for shape in shapes]
    leaves[2][0] = 0.01
    target = torch.randint(0, 10, (n,), generator=generator)

    exact = [leaf.double().requires_grad_() for leaf in leaves]
    x, weight, gamma, beta, *layers = exact
    normal = functional.batch_norm(functional.conv2d(x, weight, padding=1), None, None, gamma, beta, True)
    hidden = functional.linear(functional.max_pool2d(torch.relu(normal), 2).flatten(1), *layers[:2])
    loss = functional.cross_entropy(functional.linear(torch.relu(hidden), *layers[2:]), target)
    expected = torch.autograd.grad(loss, exact)

    x, weight, gamma, beta, w1, b1, w2, b2 = leaves
    convolved = x.new_empty((n, k, side, side))
    statistics = block_forward.convolve_directly(x, weight, convolved)
    made = ops.block_cross_entropy_gradients(
        convolved, statistics, gamma, beta, 1e-5, w1, b1, w2, target, b2, rung="k01"
    )
    given = x, weight, gamma, beta, 1e-5, made.mean, made.var, convolved, True, made.output
    given = made.grad_output, None, None, None, *given
    grads = CONV_BLOCK_BACKWARD.allocate(*given, None)
    of_block(grads, *given, sums=made.channel_sums)
    assert made.loss.item() == pytest.approx(loss.item(), rel=1e-6)
    for found, one in zip((*grads, *made[6:]), expected, strict=True):
        assert (found - one).norm() < 1e-5 * one.norm()
