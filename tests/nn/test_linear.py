"""nn.Linear beside torch.nn.Linear: the same parameters, state, results and gradients."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.utils.checkpoint

from warpwise import nn


def pair(activation: str | None = None, bias: bool = True) -> tuple[nn.Linear, torch.nn.Linear]:
    """Ours and torch's with the same parameters, drawn by torch's own initialisation."""
    torch.manual_seed(0)
    theirs = torch.nn.Linear(6, 4, bias=bias)
    torch.manual_seed(0)
    return nn.Linear(6, 4, bias=bias, activation=activation), theirs


def test_a_fresh_layer_is_torchs():
    ours, theirs = pair()
    assert list(dict(ours.named_parameters())) == ["weight", "bias"]
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("bias", [True, False])
def test_state_goes_both_ways(bias):
    ours, theirs = nn.Linear(6, 4, bias=bias), torch.nn.Linear(6, 4, bias=bias)
    ours.load_state_dict(theirs.state_dict())
    fresh = torch.nn.Linear(6, 4, bias=bias)
    fresh.load_state_dict(ours.state_dict())
    assert torch.equal(fresh.weight, theirs.weight)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "activation,function",
    [
        (None, lambda x: x),
        ("relu", torch.nn.functional.relu),
        ("gelu", torch.nn.functional.gelu),
        ("gelu_tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    ],
)
def test_results_and_gradients(activation, function, bias):
    ours, theirs = pair(activation, bias)
    x = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(1)).requires_grad_()
    y = x.detach().clone().requires_grad_()
    mine, other = ours(x), function(theirs(y))
    torch.testing.assert_close(mine, other)
    mine.square().sum().backward()
    other.square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    for left, right in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(left.grad, right.grad)


def test_residual_and_row_scale():
    ours, theirs = pair("relu")
    x, residual, scale = torch.randn(5, 6), torch.randn(5, 4), torch.rand(5)
    expected = torch.relu(scale[:, None] * (x @ theirs.weight.t()) + theirs.bias) + residual
    torch.testing.assert_close(ours(x, residual, scale), expected)


@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_compiles_into_one_graph(activation):
    ours, _ = pair(activation)
    torch._dynamo.reset()
    x = torch.randn(5, 6, requires_grad=True)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), ours(x))
    mine = torch.autograd.grad(compiled(x).sum(), [x, *ours.parameters()])
    other = torch.autograd.grad(ours(x).sum(), [x, *ours.parameters()])
    torch.testing.assert_close(mine, other)


def test_autocast_computes_in_low_precision_and_keeps_gradients_of_parameters():
    ours, _ = pair("gelu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = ours(torch.randn(5, 6))
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert {parameter.grad.dtype for parameter in ours.parameters()} == {torch.float32}


@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_checkpoints(activation):
    """A checkpoint returns a saved tensor only once."""
    ours, _ = pair(activation)
    x = torch.randn(5, 6, requires_grad=True)
    checkpointed = torch.utils.checkpoint.checkpoint(ours, x, use_reentrant=False)
    mine = torch.autograd.grad(checkpointed.sum(), [x, *ours.parameters()])
    torch.testing.assert_close(mine, torch.autograd.grad(ours(x).sum(), [x, *ours.parameters()]))


def test_exports():
    ours, _ = pair("gelu")
    x = torch.randn(5, 6)
    exported = torch.export.export(ours.eval(), (x,))
    torch.testing.assert_close(exported.module()(x), ours(x))


def test_frozen_weights_get_no_gradient():
    ours, _ = pair("gelu")
    ours.weight.requires_grad_(False)
    x = torch.randn(5, 6, requires_grad=True)
    ours(x).sum().backward()
    assert ours.weight.grad is None
    assert x.grad is not None
    assert ours.bias.grad is not None


def test_copies_and_what_it_says_of_itself():
    ours, _ = pair("gelu")
    assert copy.deepcopy(ours).activation == "gelu"
    assert repr(ours) == "Linear(in_features=6, out_features=4, bias=True, activation='gelu')"
    assert repr(nn.Linear(6, 4)) == "Linear(in_features=6, out_features=4, bias=True)"
    assert nn.Linear(6, 4, dtype=torch.float64, device="meta").weight.is_meta


def test_arguments_stand_where_torch_has_them():
    layer = nn.Linear(6, 4, False, "meta", torch.bfloat16, activation="relu")
    assert (layer.bias, layer.weight.device.type, layer.weight.dtype) == (None, "meta", torch.bfloat16)
    assert layer.activation == "relu"


def test_another_activation_is_refused():
    with pytest.raises(ValueError, match=r"Linear: expected activation to be one of 'relu', .*, None, got 'tanh'"):
        nn.Linear(6, 4, activation="tanh")
