"""Nine operations that the model describes without a special case: each right, differentiable, timed and compiled."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch
from tests.operation.nine import (
    attention,
    components,
    conv2d,
    dropout,
    int4_matmul,
    layer_norm,
    neighbours,
    sgd,
    topk,
)

from warpwise import lab
from warpwise.arguments.values import as_tuple, map_tensors, tensors
from warpwise.lab.time_point import opponents, time_point
from warpwise.lab.timing.compare import Rules
from warpwise.lab.timing.cpu_timer import CpuTimer
from warpwise.operation import Rung

CPU = torch.device("cpu")
NINE = [
    module.OP for module in (attention, components, conv2d, dropout, int4_matmul, layer_norm, neighbours, sgd, topk)
]
EVERY = [*NINE, int4_matmul.PACK, layer_norm.BACKWARD, dropout.BACKWARD, attention.BACKWARD]
by_name = lambda ops: [pytest.param(op, id=op.name) for op in ops]


@pytest.mark.parametrize("op", by_name(EVERY))
def test_the_rung_is_right(op):
    verdict = lab.verify(op, op.rungs[0], device="cpu", seeds=(0,))
    assert verdict.right, str(verdict)


@pytest.mark.parametrize("op", by_name(op for op in EVERY if op.spec.gradient))
def test_the_gradient_is_that_of_the_reference(op):
    verdict = lab.verify_gradient(op, device="cpu")
    assert verdict.right, str(verdict)


@pytest.mark.parametrize("op", by_name(NINE))
def test_it_is_timed_beside_pytorch(op):
    """The emulated kernel by a CPU's clock: shows that the lab times such operations, not how fast they are."""
    problem = lab.Problem(op, CPU)
    case = next(case for case in op.spec.cases if case.name == "ragged")
    point, timed_point = time_point(
        op,
        problem,
        case,
        op.spec.dtypes[0],
        op.rungs,
        (0, 1),
        CpuTimer(),
        Rules(0.5, 0.2),
        lambda units: None,
        opponents(op, compiled=False),
    )
    assert not timed_point.failures, timed_point.failures
    timed = {entry.name: entry.timing for entry in point.entries}
    assert set(timed) == {op.rungs[0].name, "torch"}
    assert all(timing is not None and timing.median > 0 for timing in timed.values()), point


@pytest.mark.parametrize("op", by_name(NINE))
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_it_compiles_into_one_graph(op):
    """torch.compile sees one operator, whose outputs have the shapes and dtypes of eager mode."""
    case = next(case for case in op.spec.cases if case.name == "ragged")
    args = op.spec.arguments(case, op.spec.dtypes[0], CPU, 0)
    copies = [map_tensors(torch.clone, args) for _ in range(2)]
    eager = op.call(*copies[0])
    torch._dynamo.reset()
    compiled = torch.compile(lambda *values: op.call(*values), fullgraph=True, backend="aot_eager")(*copies[1])
    for one, other in zip(
        [*tensors(as_tuple(eager)), *tensors(copies[0])],
        [*tensors(as_tuple(compiled)), *tensors(copies[1])],
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_saved_outputs_are_not_returned():
    x = torch.randn(3, 5, requires_grad=True)
    assert isinstance(layer_norm.OP(x), torch.Tensor)
    assert isinstance(attention.OP(x[None], x[None], x[None]), torch.Tensor)


def test_the_mask_of_the_backward_is_that_of_the_forward():
    x = torch.ones(1000, requires_grad=True)
    y = dropout.OP(x, 0.5, 7, rung="k01")
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad, y.detach())
    assert 400 < int((y == 0).sum()) < 600
    assert not torch.equal(dropout.OP(x, 0.5, 8, rung="k01"), y)


def test_shrinking_changes_sizes_alone():
    """An attribute of a failing case stays: a smaller k would be another operation."""

    def broken(outputs, x, k):
        values, indices = outputs
        made = torch.topk(x, k)
        values.copy_(made.values)
        indices.copy_(made.indices)
        if x.shape[1] > 11:
            values[0, 0] += 1

    op = topk.OP
    case = dataclasses.replace(op.spec.cases[1], attributes={"ties": False})
    verdict = lab.verify(
        op, Rung("k09_broken", "", "python", broken, topk.Path(__file__)), device="cpu", cases=[case], seeds=(0,)
    )
    smaller = verdict.failures[0].smaller
    assert dict(smaller.case.sizes) == {"rows": 1, "columns": 12}
    assert smaller.case.attributes == {"ties": False}


BROKEN = {
    "a label of another component": (components, lambda good: lambda labels, *args: (
        good(labels, *args), labels[:2].fill_(labels[0] + 1)), "is another partition"),
    "an index twice": (topk, lambda good: lambda outputs, *args: (
        good(outputs, *args), outputs[1].fill_(0)), "an element twice"),
    "an output that was never allocated": (neighbours, lambda good: lambda out, *args: None, "did not call allocate"),
    "a pair too few": (neighbours, lambda good: lambda out, points, radius: good(
        out, points[1:].contiguous(), radius), "has shape"),
    "a parameter that is left out": (sgd, lambda good: lambda out, p, g, v, *rest: good(
        out, p[1:], g[1:], v[1:], *rest), r"params\[0\]"),
    "a gradient that is changed": (sgd, lambda good: lambda out, p, g, *rest: (
        good(out, p, g, *rest), g[0].zero_()), "changed grads"),
    "mean left unwritten": (layer_norm, lambda good: lambda outputs, *args: (
        good(outputs, *args), outputs[1].fill_(float("nan"))), "mean"),
    "a nibble in the other half": (int4_matmul, lambda good: lambda out, a, packed, scales: good(
        out, a, (packed >> 4 | packed << 4), scales), "output"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rung_is_found(name):
    module, breaking, message = BROKEN[name]
    op, good = module.OP, module.OP.rungs[0]
    rung = dataclasses.replace(good, name="k09_broken", launch=breaking(good.launch))
    cases = [case for case in op.spec.cases if case.name in ("ragged", "paths")][:1]
    verdict = lab.verify(op, rung, device="cpu", cases=cases, seeds=(0,))
    assert verdict.status == "wrong"
    assert re.search(message, str(verdict)), str(verdict)


WRONG_GRADIENTS = {
    "a factor": lambda saved, grad, _: {"input": 2 * topk.backward(saved, grad, None)["input"]},
    "none": lambda saved, grad, _: {"input": None},
    "another shape": lambda saved, grad, _: {
        "input": topk.backward(saved, grad, None)["input"][:, :1].expand(saved.input.shape)
    },
}


@pytest.mark.parametrize("name", WRONG_GRADIENTS)
def test_a_wrong_gradient_is_found(name):
    spec = dataclasses.replace(
        topk.OP.spec,
        schema=topk.OP.spec.schema.replace("nine::topk", f"nine::topk_{abs(hash(name))}"),
        gradient=dataclasses.replace(topk.OP.spec.gradient, backward=WRONG_GRADIENTS[name]),
    )
    verdict = lab.verify_gradient(dataclasses.replace(topk.OP, spec=spec), device="cpu")
    assert verdict.status == "wrong"
    assert "gradient of input" in str(verdict)


def test_a_wrong_linked_backward_is_found():
    good = layer_norm.BACKWARD.spec

    def reference(*args):
        dx, dweight, dbias = good.reference(*args)
        return 1.001 * dx, dweight, dbias

    backward = dataclasses.replace(layer_norm.BACKWARD, spec=dataclasses.replace(good, reference=reference))
    spec = dataclasses.replace(
        layer_norm.OP.spec, gradient=dataclasses.replace(layer_norm.OP.spec.gradient, backward=backward)
    )
    verdict = lab.verify_gradient(dataclasses.replace(layer_norm.OP, spec=spec), device="cpu")
    assert verdict.status == "wrong"
    assert "layer_norm_backward's reference: the gradient of input[0, 0]" in str(verdict)
