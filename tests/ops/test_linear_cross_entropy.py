"""linear_cross_entropy and linear_backward beside PyTorch's functions, and the errors of their arguments."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch.nn import functional

from warpwise import ops
from warpwise.cuda.gpu import known
from warpwise.ops.conv_block.backward import rungs as block_backward
from warpwise.ops.conv_block.op import CONV_BLOCK, CONV_BLOCK_BACKWARD
from warpwise.ops.conv_block.spec import CHANNEL_SUMS

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


def block_and_layer(n, k, size, units):
    """A block's output with the tensors that determine it, and the arguments of the layers after it."""
    generator = torch.Generator().manual_seed(n)
    x, w, gamma, beta = (
        torch.randn(shape, generator=generator) for shape in ((n, 2, size, size), (k, 2, 3, 3), (k,), (k,))
    )
    gamma[:3] = torch.tensor([0.01, 0.0, -0.5])  # of the first two the sums read the convolution
    output, mean, var, convolved = CONV_BLOCK.every(x, w, gamma, beta, 1e-5, None, rung="k04")
    features = k * (size // 2) ** 2
    w1, w2 = torch.randn(units, features, generator=generator), torch.randn(10, units, generator=generator)
    input, target = output.flatten(1), torch.randint(0, 10, (n,), generator=generator)
    layers = {"hidden": torch.relu(input @ w1.t()), "hidden_weight": w1, "linear_weight": w2, "target": target}
    return (x, w, gamma, beta, 1e-5, mean, var, convolved), output, {"input": input, **layers}


@pytest.mark.parametrize("sizes", [(5, 4, 14, 20), (37, 8, 6, 36), (3, 4, 9, 8), (2, 68, 2, 8)])
def test_the_gradient_of_a_blocks_output_adds_the_sums_of_its_channels(sizes):
    """They are those of the block's backward, whose gradients are the same; channels lie in one tile or in several."""
    found = []
    for context in (known.remembering(), contextlib.nullcontext()):
        with context:
            saved, output, layers = block_and_layer(*sizes)
            dx = ops.mlp_cross_entropy_gradients(**layers, rung="k01")[1]
            args = dx.view(output.shape), None, None, None, *saved, True, output, None
            sums = known.told(CHANNEL_SUMS, args[0])
            assert (sums is None) == (len(found) == 1)
            if sums is None:
                sums = block_backward._channel_parts(saved[-1], *args[:-1], average=None)
            found.append((dx, sums.sum(1), CONV_BLOCK_BACKWARD.call(*args, rung="k06")))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)


def test_what_is_told_about_a_tensor():
    """It holds for views of the same size, until the tensor changes or what is known is forgotten."""
    tensor = torch.ones(4, 6)
    known.tell("a", tensor, 1)
    assert known.told("a", tensor) is None
    with known.remembering():
        known.tell("a", tensor, 1)
        assert known.told("a", tensor.view(24)) == known.told("a", tensor) == 1
        assert known.told("b", tensor) is None
        assert known.told("a", tensor[:2]) is None
        assert known.told("a", tensor.clone()) is None
        tensor.add_(1)
        assert known.told("a", tensor) is None
        known.tell("a", tensor, 2)
        known.forget()
        assert known.told("a", tensor) is None
