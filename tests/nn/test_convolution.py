"""Convolutional modules, the loss and the optimizer beside PyTorch's: the same state, results, gradients and steps."""

from __future__ import annotations

import collections
import copy
import pickle
import threading

import pytest
import torch

import warpwise
from warpwise import nn, optim

PAIRS = {
    "conv": (lambda m: m.Conv2d(2, 4, 3, padding=1), (2, 2, 6, 7)),
    "conv_groups": (lambda m: m.Conv2d(4, 6, (3, 2), stride=2, dilation=(1, 2), groups=2, bias=False), (2, 4, 7, 8)),
    "conv_same": (lambda m: m.Conv2d(2, 3, 3, padding="same"), (2, 2, 5, 5)),
    "conv_reflect": (lambda m: m.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (1, 2, 5, 5)),
    "conv_single": (lambda m: m.Conv2d(2, 3, 3), (2, 5, 5)),
    "batch_norm": (lambda m: m.BatchNorm2d(3, momentum=0.2), (4, 3, 5, 5)),
    "batch_norm_average": (lambda m: m.BatchNorm2d(3, affine=False, momentum=None), (4, 3, 5, 5)),
    "batch_norm_untracked": (lambda m: m.BatchNorm2d(3, track_running_stats=False), (4, 3, 5, 5)),
    "max_pool": (lambda m: m.MaxPool2d(2), (2, 3, 6, 8)),
    "max_pool_overlapping": (lambda m: m.MaxPool2d(3, stride=2, padding=1), (2, 3, 6, 8)),
    "max_pool_ceil": (lambda m: m.MaxPool2d(2, ceil_mode=True), (2, 3, 5, 7)),
    "avg_pool": (lambda m: m.AvgPool2d(2), (2, 3, 6, 8)),
    "avg_pool_padded": (lambda m: m.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), (2, 3, 6, 8)),
    "avg_pool_divisor": (lambda m: m.AvgPool2d(2, divisor_override=3), (2, 3, 6, 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_module_is_torchs(name):
    make, shape = PAIRS[name]
    torch.manual_seed(1)
    theirs = make(torch.nn)
    torch.manual_seed(1)
    ours = make(nn)
    assert repr(ours) == repr(theirs)
    for training in (True, True, False):
        ours.train(training)
        theirs.train(training)
        x = torch.randn(shape)
        xs = [x.clone().requires_grad_() for _ in range(2)]
        y, expected = ours(xs[0]), theirs(xs[1])
        torch.testing.assert_close(y, expected)
        weights = torch.randn_like(y)
        (y * weights).sum().backward()
        (expected * weights).sum().backward()
        torch.testing.assert_close(xs[0].grad, xs[1].grad)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    torch.testing.assert_close(dict(ours.state_dict()), dict(theirs.state_dict()))
    theirs.load_state_dict(ours.state_dict())


def test_a_block_is_its_four_steps():
    torch.manual_seed(1)
    ours = nn.ConvBlock(2, 4).double()  # in float32 the orders of the sums would differ by more than the tolerance
    torch.manual_seed(1)
    steps = {"conv": torch.nn.Conv2d(2, 4, 3, padding=1), "norm": torch.nn.BatchNorm2d(4), "relu": torch.nn.ReLU()}
    theirs = torch.nn.Sequential(collections.OrderedDict(**steps, pool=torch.nn.MaxPool2d(2))).double()
    with torch.no_grad():
        ours.conv.bias.add_(3)
    theirs.load_state_dict(ours.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for training in (True, True, False):
        ours.train(training)
        theirs.train(training)
        xs = [torch.randn(3, 2, 7, 8, dtype=torch.float64).requires_grad_()]
        xs.append(xs[0].detach().clone().requires_grad_())
        y, expected = ours(xs[0]), theirs(xs[1])
        torch.testing.assert_close(y, expected)
        weights = torch.randn_like(y)
        (y * weights).sum().backward()
        (expected * weights).sum().backward()
        torch.testing.assert_close(xs[0].grad, xs[1].grad)
        for name in ("conv.weight", "norm.weight", "norm.bias"):
            torch.testing.assert_close(ours.get_parameter(name).grad, theirs.get_parameter(name).grad)
    torch.testing.assert_close(dict(ours.state_dict()), dict(theirs.state_dict()))


def test_blocks_of_a_sequential_update_their_statistics_together():
    """Blocks with and without a bias, and with a cumulative average, beside torch.nn.Sequential of the same blocks."""
    blocks = nn.ConvBlock(2, 3), nn.ConvBlock(3, 4, bias=False), nn.ConvBlock(4, 2, momentum=None)
    ours = nn.Sequential(*blocks, torch.nn.Flatten())
    theirs = torch.nn.Sequential(*copy.deepcopy(ours))
    for _ in range(2):
        x = torch.randn(3, 2, 16, 16)
        torch.testing.assert_close(ours(x), theirs(x))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    torch.testing.assert_close(dict(ours.state_dict()), dict(theirs.state_dict()))
    assert int(ours[2].norm.num_batches_tracked) == 2


def test_a_block_normalises_in_float32_a_convolution_of_16_bits():
    ours = nn.ConvBlock(2, 3).bfloat16()
    ours.norm.float()
    theirs = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3, padding=1), torch.nn.BatchNorm2d(3)).bfloat16()
    theirs[1].float()
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values(), strict=True)))
    x = torch.randn(4, 2, 6, 6).bfloat16()
    torch.testing.assert_close(ours(x), torch.nn.functional.max_pool2d(theirs(x).relu(), 2), rtol=0.02, atol=0.02)
    torch.testing.assert_close(ours.norm.running_var, theirs[1].running_var, rtol=0.01, atol=0.01)
    ours(x).sum().backward()
    assert ours.conv.weight.grad.dtype == torch.bfloat16 and ours.norm.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("name,arguments,input", [
    ("MaxPool2d", (2,), torch.arange(32).view(2, 1, 4, 4)),
    ("MaxPool2d", (2,), torch.arange(32, dtype=torch.uint8).view(2, 1, 4, 4)),
    ("AvgPool2d", (2,), torch.arange(32).view(2, 1, 4, 4)),
    ("Conv2d", (1, 2, 3, 1, 1, 1, 1, True, "zeros", None, torch.complex64), torch.ones(2, 1, 4, 4) + 1j),
    ("BatchNorm2d", (2,), torch.ones(0, 2, 4, 4)),
])  # fmt: skip
def test_pytorch_computes_what_the_operations_do_not_take(name, arguments, input):
    ours, theirs = (getattr(module, name)(*arguments) for module in (nn, torch.nn))
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(ours(input), theirs(input))
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), equal_nan=True)


def test_a_model_of_several_processes_can_be_copied_and_pickled():
    """A process group cannot: the copy has none, and is a model of one process."""
    block, x = nn.ConvBlock(1, 3), torch.randn(2, 1, 4, 4)
    group = block.norm.statistics_over = threading.Lock()  # which cannot be copied either
    for copied in (copy.deepcopy(block), pickle.loads(pickle.dumps(block))):
        assert copied.norm.statistics_over is None and block.norm.statistics_over is group
        torch.testing.assert_close(copied.state_dict(), block.state_dict())
        assert copied(x).shape == (2, 3, 2, 2)


def test_a_sequential_takes_a_block_with_a_forward_of_its_own():
    class Doubled(nn.ConvBlock):
        def forward(self, input):
            return 2 * super().forward(input)

    model, x = nn.Sequential(Doubled(1, 3)), torch.randn(2, 1, 4, 4)
    twin = nn.ConvBlock(1, 3)
    twin.load_state_dict(model[0].state_dict())
    torch.testing.assert_close(model(x), 2 * twin(x))
    torch.testing.assert_close(model[0].state_dict(), twin.state_dict())


def test_batch_norm_needs_several_values():
    with pytest.raises(ValueError, match="expected several values per channel to train with, got"):
        nn.BatchNorm2d(3)(torch.ones(1, 3, 1, 1))


@pytest.mark.parametrize(
    "options", [{}, {"ignore_index": 2}, {"label_smoothing": 0.1}, {"reduction": "sum"}, {"weight": torch.ones(5) * 2}]
)
def test_the_loss_is_torchs(options):
    logits, target = torch.randn(7, 5), torch.tensor([0, 1, 2, 3, 4, 2, 2])
    torch.testing.assert_close(
        nn.CrossEntropyLoss(**options)(logits, target), torch.nn.CrossEntropyLoss(**options)(logits, target)
    )


def test_sgd_takes_the_arguments_of_torch_in_its_order():
    params = [torch.ones(2, requires_grad=True)]
    ours, theirs = (one(params, 0.1, 0.9, 0, 0.01, True) for one in (optim.SGD, torch.optim.SGD))
    assert all(theirs.defaults[name] == value for name, value in ours.defaults.items())
    with pytest.raises(ValueError, match=r"expected a dampening of 0, others are not supported, got 0\.5"):
        optim.SGD(params, 0.1, 0.9, 0.5)


@pytest.mark.parametrize("name", ["lr", "momentum", "weight_decay"])
def test_sgd_refuses_nan(name):
    with pytest.raises(ValueError, match=f"SGD: expected {name} of at least 0, got nan"):
        optim.SGD([torch.ones(2, requires_grad=True)], **{name: float("nan")})


def test_a_group_of_several_dtypes_takes_torchs_steps():
    """As of a network in bfloat16 whose normalisations are in float32."""
    stepped = []
    for optimizer in (optim.SGD, torch.optim.SGD):
        params = [torch.ones(3, dtype=kind, requires_grad=True) for kind in (torch.float32, torch.bfloat16) * 2]
        made = optimizer(params, 0.1, 0.9, 0, 0.01)
        for number in range(3):
            for param in params[number % 2 :]:
                param.grad = torch.full_like(param, 0.5)
            made.step()
        stepped.append(params)
    torch.testing.assert_close(*stepped)


def test_a_step_without_target_says_so():
    model = nn.Linear(3, 4)
    step = nn.compile_step(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters()))
    for call in (step, step.many):
        with pytest.raises(TypeError, match="compile_step: expected a step's input and target, got 1 arguments"):
            call(torch.ones(2, 3))
    of_batch = nn.compile_step(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters()), batch=lambda: None)
    with pytest.raises(TypeError, match="expected the arguments of batch, at least one tensor, got none"):
        of_batch()


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_of_sgd_are_torchs(momentum, nesterov):
    if nesterov and not momentum:
        with pytest.raises(ValueError, match="momentum above 0 with nesterov"):
            optim.SGD([torch.ones(2, requires_grad=True)], momentum=momentum, nesterov=True)
        return
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in ((3, 4), (5,), ())]
    unused = torch.nn.Parameter(torch.ones(2))
    theirs = copy.deepcopy(ours)
    settings = {"lr": 0.1, "momentum": momentum, "weight_decay": 0.01, "nesterov": nesterov}
    optimizers = optim.SGD([*ours, unused], **settings), torch.optim.SGD(theirs, **settings)
    schedules = [torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5) for optimizer in optimizers]
    for _ in range(4):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)
    assert torch.equal(unused, torch.ones(2))
    fresh = torch.optim.SGD(ours + [unused], **settings)
    fresh.load_state_dict(optimizers[0].state_dict())


def test_a_compiled_step_is_the_step():
    model = torch.nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), torch.nn.ReLU(), nn.MaxPool2d(2), torch.nn.Flatten(),
        nn.Linear(36, 3),
    )  # fmt: skip
    other = copy.deepcopy(model)
    step = nn.compile_step(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        x, target = torch.randn(5, 1, 6, 6), torch.randint(0, 3, (5,))
        loss = step(x, target)
        optimizer.zero_grad()
        expected = torch.nn.functional.cross_entropy(other(x), target)
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(dict(model.state_dict()), dict(other.state_dict()))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_many_steps_are_single_steps(device):
    """13 steps: on a GPU one graph of ten and three of one. The batch is gathered within the step."""
    torch.manual_seed(3)
    images, labels = torch.randn(40, 12, device=device), torch.randint(0, 3, (40,), device=device)
    indices = torch.randint(0, 40, (13, 8), device=device)
    first = torch.nn.Sequential(nn.Linear(12, 8, activation="relu"), nn.Linear(8, 3)).to(device)
    models = first, copy.deepcopy(first)
    steps = [
        nn.compile_step(
            model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
            batch=lambda chosen: (images[chosen], labels[chosen]),
        )
        for model in models
    ]  # fmt: skip
    losses = steps[0].many(indices)
    expected = torch.stack([steps[1](chosen).clone() for chosen in indices])
    assert torch.equal(losses, expected)
    torch.testing.assert_close(dict(models[0].state_dict()), dict(models[1].state_dict()), rtol=0, atol=0)
    assert steps[0].many(indices[:0]).shape == (0,)
    with pytest.raises(ValueError, match=r"many: expected the same number of steps in all inputs, 13, got shape \(2,"):
        steps[0].many(indices, indices[:2])


@pytest.mark.parametrize("change", [None, "hook", "activation", "sum", "torch", "classes"])
def test_the_last_layer_and_the_loss_are_one_operation(change, monkeypatch):
    """Fused or not, the loss is PyTorch's; a hook on the last layer, for example, prevents it."""
    calls = []
    monkeypatch.setattr(nn.loss, "linear_cross_entropy", lambda *args: calls.append(1) or fused(*args))
    fused = warpwise.ops.linear_cross_entropy
    if change == "classes":  # a layer that PyTorch would compute on a GPU
        monkeypatch.setattr(nn.loss, "has_kernels", lambda *args: False)
    last = nn.Linear(6, 3, activation="relu" if change == "activation" else None)
    model = torch.nn.Sequential(nn.Linear(4, 6), torch.nn.Linear(6, 3) if change == "torch" else last)
    if change == "hook":
        last.register_forward_hook(lambda *args: None)
    loss = nn.CrossEntropyLoss(reduction="sum" if change == "sum" else "mean")
    other = copy.deepcopy(model)
    x, target = torch.randn(5, 4), torch.randint(0, 3, (5,))
    value = nn.compile_step(model, loss, optim.SGD(model.parameters(), lr=0.1))(x, target)
    torch.testing.assert_close(value, loss(other(x), target).detach())
    assert len(calls) == (1 if change is None else 0)


@pytest.mark.gpu
def test_a_graph_that_a_cycle_holds_is_not_freed_during_a_capture():
    """Freeing it, which garbage collection would do, invalidates a capture."""
    model = torch.nn.Sequential(nn.Linear(8, 3)).cuda()
    held, x = torch.cuda.CUDAGraph(), torch.ones(4, device="cuda")
    with torch.cuda.graph(held):
        x.add_(1)
    cycle = [held]
    cycle.append(cycle)
    graphs = [cycle]
    del held, cycle

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if torch.cuda.is_current_stream_capturing():
            graphs.clear()
            garbage = [[one] for one in range(5000)]  # more allocations than the threshold of a collection
            del garbage
        return torch.nn.functional.cross_entropy(output, target)

    step = nn.compile_step(model, loss, optim.SGD(model.parameters(), lr=0.1))
    inputs = torch.randn(5, 8, device="cuda"), torch.randint(0, 3, (5,), device="cuda")
    assert step(*inputs).isfinite()


@pytest.mark.gpu
def test_a_captured_step_is_the_step():
    """Several replays, a changed learning rate and another shape of batch, beside PyTorch in eager mode."""
    model = torch.nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), torch.nn.ReLU(), nn.MaxPool2d(2), torch.nn.Flatten(),
        nn.Linear(36, 3),
    ).cuda()  # fmt: skip
    other = copy.deepcopy(model)
    optimizers = optim.SGD(model.parameters(), lr=0.1, momentum=0.9), torch.optim.SGD(other.parameters(), 0.1, 0.9)
    step = nn.compile_step(model, nn.CrossEntropyLoss(), optimizers[0])
    for number in range(6):
        if number == 3:
            for optimizer in optimizers:
                optimizer.param_groups[0]["lr"] = 0.05
        count = 4 if number == 5 else 5
        x, target = torch.randn(count, 1, 6, 6, device="cuda"), torch.randint(0, 3, (count,), device="cuda")
        loss = step(x, target).clone()
        optimizers[1].zero_grad()
        expected = torch.nn.functional.cross_entropy(other(x), target)
        expected.backward()
        optimizers[1].step()
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(dict(model.state_dict()), dict(other.state_dict()), rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
def test_a_captured_step_copies_one_tensor_for_input_and_target():
    model = torch.nn.Linear(3, 3).cuda()
    other = copy.deepcopy(model)
    optimizers = optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(other.parameters(), 0.1)
    step = nn.compile_step(model, torch.nn.functional.mse_loss, optimizers[0])
    for number in range(4):
        x = torch.randn(5, 3, device="cuda")
        target = x if number % 2 else x + 1
        loss = step(x, target).clone()
        optimizers[1].zero_grad()
        expected = torch.nn.functional.mse_loss(other(x), target)
        expected.backward()
        optimizers[1].step()
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["plain", "shared", "hook", "no_bias"])
def test_gradients_beside_the_chain_are_those_of_the_chain(kind):
    """A layer used twice, whose gradients are added, and a hook that reads one: bit for bit as without a graph."""
    torch.manual_seed(5)
    layer = nn.Linear(96, 96, bias=kind != "no_bias", activation="relu")
    first = torch.nn.Sequential(layer, *([layer] if kind == "shared" else []), nn.Linear(96, 10)).cuda()
    models = first, copy.deepcopy(first)
    losses = []
    inputs, targets = torch.randn(12, 64, 96, device="cuda"), torch.randint(0, 10, (12, 64), device="cuda")
    for model, graph in zip(models, (True, False), strict=True):
        if kind == "hook":
            model[0].weight.register_hook(lambda grad: grad * 2)
        step = nn.compile_step(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.1), graph=graph)
        losses.append(step.many(inputs, targets))
    assert torch.equal(*losses)
    torch.testing.assert_close(dict(models[0].state_dict()), dict(models[1].state_dict()), rtol=0, atol=0)


@pytest.mark.gpu
def test_moments_of_the_next_batch_are_those_of_the_batch():
    """A network of blocks: several steps in a graph, one, and none, bit for bit."""
    torch.manual_seed(6)
    first = nn.Sequential(nn.ConvBlock(1, 16), nn.ConvBlock(16, 32), torch.nn.Flatten(), nn.Linear(288, 10)).cuda()
    models = first, copy.deepcopy(first), copy.deepcopy(first)
    inputs, targets = torch.randn(11, 140, 1, 12, 12, device="cuda"), torch.randint(0, 10, (11, 140), device="cuda")
    losses = []
    for number, model in enumerate(models):
        step = nn.compile_step(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.1), graph=number < 2)
        single = [step(*given).clone() for given in zip(inputs, targets, strict=True)] if number else None
        losses.append(step.many(inputs, targets) if single is None else torch.stack(single))
    assert torch.equal(losses[0], losses[1])
    assert torch.equal(losses[0], losses[2])
    for model in models[1:]:
        torch.testing.assert_close(dict(models[0].state_dict()), dict(model.state_dict()), rtol=0, atol=0)
