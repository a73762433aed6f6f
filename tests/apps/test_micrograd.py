"""The small tensor engine beside PyTorch's autograd, and a network that it trains."""

from __future__ import annotations

import pytest
import torch

from warpwise.apps.micrograd import Perceptron, Value, cross_entropy

EXPRESSIONS = {
    "add": (lambda a, b: (a + b).sum(), (3, 4), (3, 4)),
    "add_row": (lambda a, b: ((a + b) * a).sum(), (3, 4), (4,)),
    "add_column": (lambda a, b: ((a + b) * b).sum(), (3, 4), (3, 1)),
    "mul_scalar": (lambda a, b: (a * b * 2.5).sum(), (3, 4), ()),
    "mul_both_ways": (lambda a, b: (a * b + b).sum(), (3, 1), (1, 4)),
    "subtract": (lambda a, b: ((a - b) * (1 - a)).sum(), (3, 4), (4,)),
    "matmul": (lambda a, b: (a @ b).tanh().sum(), (3, 4), (4, 5)),
    "relu": (lambda a, b: (a.relu() * b).sum(), (3, 4), (3, 4)),
    "tanh": (lambda a, b: (a.tanh() * b.tanh()).sum(), (3, 4), (4,)),
    "exp": (lambda a, b: (a * b).exp().mean(), (3, 4), (3, 4)),
    "sum": (lambda a, b: (a.sum(0) * b).sum(), (3, 4), (4,)),
    "sum_last": (lambda a, b: (a.sum(1) * b).sum(), (3, 4), (3,)),
    "reshape": (lambda a, b: (a.reshape(4, 3) @ b).sum(), (3, 4), (3, 2)),
    "used_often": (lambda a, b: (a * a * a + a @ b @ b).sum(), (3, 3), (3, 3)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_gradients_are_pytorchs(name, dtype):
    expression, *shapes = EXPRESSIONS[name]
    drawn = [torch.randn(shape, dtype=dtype) for shape in shapes]
    ours = [Value(tensor) for tensor in drawn]
    theirs = [tensor.clone().requires_grad_() for tensor in drawn]
    result, expected = expression(*ours), expression(*theirs)
    torch.testing.assert_close(result.data, expected.detach())
    result.backward()
    expected.backward()
    for value, tensor in zip(ours, theirs, strict=True):
        torch.testing.assert_close(value.grad, tensor.grad)


def test_the_loss_is_pytorchs():
    logits, target = torch.randn(6, 4), torch.tensor([0, 3, 1, 1, 2, 0])
    value, tensor = Value(logits), logits.clone().requires_grad_()
    loss, expected = cross_entropy(value, target), torch.nn.functional.cross_entropy(tensor, target)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss.data, expected.detach())
    torch.testing.assert_close(value.grad, tensor.grad)


def test_gradients_add_up_and_need_a_scalar():
    x = Value(torch.ones(3))
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 5.0))
    with pytest.raises(ValueError, match=r"expected a value with one element, got shape \(3,\)"):
        x.backward()


def test_a_long_chain_needs_no_recursion():
    x = Value(torch.ones(2))
    y = x
    for _ in range(3000):
        y = y * 1.0
    y.sum().backward()
    assert torch.equal(x.grad, torch.ones(2))


def test_a_network_learns():
    torch.manual_seed(0)
    centres = 2 * torch.randn(4, 12)
    labels = torch.arange(120) % 4
    x = centres[labels] + 0.3 * torch.randn(120, 12)
    network = Perceptron(12, 16, 4)
    losses = [network.step(x, labels) for _ in range(60)]
    assert losses[-1] < 0.1 < losses[0]
    assert (network(x).data.argmax(1) == labels).float().mean() > 0.98
