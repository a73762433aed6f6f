"""The gradients of training steps of the small network against float64, from the same weights at every step.

Losses of two correct runs part after some steps: where the two largest values of a pooling window, or a value and 0,
differ by less than float32 rounding, two orders of a sum choose different pixels, and the difference grows from step
to step. Within one step such a window changes the gradients by a known amount, the difference between both choices.
Everything else agrees to rounding, so a stale buffer, a wrong order or a race is seen at the step where it happens.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn import functional

from warpwise import nn, optim
from warpwise.apps.train import emulated, networks

CLOSE = 2e-6  # values of order 1 that rounding may exchange
TOLERANCE = 2e-5  # of a parameter's gradient, relative in the 2-norm
Gradients = dict[str, torch.Tensor]


class Choice(NamedTuple):
    """A window whose two largest values, or whose largest value and 0, are equal up to rounding."""

    block: int
    of_maximum: bool
    at: tuple[int, ...]


def reference(params: Gradients, x: torch.Tensor, y: torch.Tensor, other: Choice | None) -> tuple[Gradients, list[Any]]:
    """Gradients in float64, with the second choice at ``other``, and the choices that rounding may change."""
    given = {name: param.double().requires_grad_() for name, param in params.items()}
    close, h = [], x.double()
    for block in (1, 2):
        weight, bias, gamma, beta = (
            given[f"block{block}.{name}"] for name in ("conv.weight", "conv.bias", "norm.weight", "norm.bias")
        )
        convolved = functional.conv2d(h, weight, bias, padding=1)
        normal = functional.batch_norm(convolved, None, None, gamma, beta, True, 0.0, 1e-5)
        windows = normal.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4)
        top = windows.detach().topk(2, -1)
        most, gap = top.values[..., 0], top.values[..., 0] - top.values[..., 1]
        # Gaps of exact ties, of equal patches, are rounding of float64; either pixel has the same gradients.
        for of_maximum, mask in ((True, (gap < CLOSE) & (gap > 1e-11) & (most > -CLOSE)), (False, most.abs() < CLOSE)):
            close += [Choice(block, of_maximum, tuple(at)) for at in mask.nonzero().tolist()]
        chosen, positive = top.indices[..., 0].clone(), most > 0
        if other is not None and other.block == block:
            if other.of_maximum:
                chosen[other.at] = top.indices[other.at][1]
            else:
                positive[other.at] = ~positive[other.at]
        h = windows.gather(-1, chosen.unsqueeze(-1)).squeeze(-1) * positive
    h = functional.relu(functional.linear(h.flatten(1), given["linear1.weight"], given["linear1.bias"]))
    loss = functional.cross_entropy(functional.linear(h, given["linear2.weight"], given["linear2.bias"]), y)
    return dict(zip(given, torch.autograd.grad(loss, list(given.values())), strict=True)), close


def differences(grads: Gradients, params: Gradients, x: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    """The error of each gradient beyond what other choices explain, in units of the tolerance."""
    expected, close = reference(params, x, y, None)
    others = [reference(params, x, y, one)[0] for one in close]
    found = {}
    for name, value in expected.items():
        if name.endswith("conv.bias"):  # 0 but for rounding
            continue
        explained = sum((float((other[name] - value).norm()) for other in others), 0.0)
        found[name] = float((grads[name].double() - value).norm()) / (TOLERANCE * float(value.norm()) + explained)
    return found


def batches(count: int, batch: int, side: int) -> Sequence[tuple[torch.Tensor, torch.Tensor]]:
    """Images of large values and a constant border, as digits have, and labels."""
    torch.manual_seed(11)
    images = torch.full((count, batch, 1, side, side), -0.8)
    images[..., 2:-2, 2:-2] = torch.randn(count, batch, 1, side - 4, side - 4)
    return list(zip(images, torch.randint(0, 10, (count, batch)), strict=True))


def network(side: int) -> torch.nn.Module:
    return networks.build("cnn", nn, 1, (side, side), 10, seed=0)


def copied(model: torch.nn.Module) -> Gradients:
    return {name: param.detach().clone() for name, param in model.named_parameters()}


def gradients(model: torch.nn.Module) -> Gradients:
    return {name: param.grad.clone() for name, param in model.named_parameters() if param.grad is not None}


def test_gradients_of_emulated_steps_are_those_of_float64():
    """And what a step changes: parameters by SGD, and running statistics as PyTorch's modules do."""
    model = network(8)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches(2, 4, 8):
        params, by_pytorch = copied(model), copy.deepcopy(model)
        loss = functional.cross_entropy(by_pytorch(x), y)
        torch.testing.assert_close(emulated.step(model, optimizer, x, y), loss)
        torch.testing.assert_close(dict(model.named_buffers()), dict(by_pytorch.named_buffers()))
        for name, param in model.named_parameters():
            expected = params[name] if param.grad is None else params[name] - 0.05 * param.grad
            torch.testing.assert_close(param.detach(), expected, rtol=1e-6, atol=1e-7)
        found = differences(gradients(model), params, x, y)
        assert max(found.values()) < 1, found
        assert max(differences(gradients(model), params, x, y.roll(1)).values()) > 100  # of labels of another image


@pytest.mark.gpu
@pytest.mark.parametrize("batch", [128, 160])
def test_gradients_of_captured_steps_are_those_of_float64(batch):
    """Up to one image per SM, and more."""
    model = network(28).cuda()
    step = nn.compile_step(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.05))
    for x, y in batches(6, batch, 28):
        params, x, y = copied(model), x.cuda(), y.cuda()
        step(x, y)
        found = differences(gradients(model), params, x, y)
        assert max(found.values()) < 1, found


@pytest.mark.gpu
@pytest.mark.parametrize("batch", [128, 160])
def test_steps_of_a_graph_are_single_steps(batch):
    """The next batch beside the loss or the first linear layer: bit for bit, in every repetition."""
    first = network(28).cuda()
    inputs, targets = (torch.stack(each).cuda() for each in zip(*batches(10, batch, 28), strict=True))
    losses = []
    for graph in (False, True, True, True):
        model = copy.deepcopy(first)
        step = nn.compile_step(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.05), graph=graph)
        losses.append(step.many(inputs, targets))
    assert all(torch.equal(losses[0], other) for other in losses[1:])
