"""Specifications of backwards that are derived from the forward's, and the checks of linked backwards."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tests.operation import rms_norm
from torch.utils._python_dispatch import TorchDispatchMode

from warpwise import lab
from warpwise.operation import Case, Cost, Gradient, Op, Output, Spec, backward_spec, unregister


@pytest.fixture(autouse=True, scope="module")
def _unregistered():
    yield
    unregister("tests::rms_norm")
    unregister("tests::rms_norm_backward")


@pytest.mark.parametrize("op", [rms_norm.OP, rms_norm.BACKWARD], ids=lambda op: op.name)
def test_forward_and_backward_are_right(op):
    verdict = lab.verify(op, op.rungs[0], device="cpu", seeds=(0, 1))
    assert verdict.right, str(verdict)
    verdict = lab.verify_gradient(op, device="cpu")
    assert verdict.right, str(verdict)


def test_first_and_second_derivatives():
    args = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (4,))]
    assert torch.autograd.gradcheck(rms_norm.rms_norm, args)
    assert torch.autograd.gradgradcheck(rms_norm.rms_norm, args)
    compiled = torch.compile(rms_norm.rms_norm, fullgraph=True, backend="aot_eager")
    x, weight = torch.randn(5, 7, requires_grad=True), torch.randn(7, requires_grad=True)
    for rung in (None, "k01"):
        ours, theirs = compiled(x, weight, rung=rung), rms_norm.eager(x, weight, 1e-6)[0]
        torch.testing.assert_close(ours, theirs)
        for one, other in zip(*(torch.autograd.grad(y.cos().sum(), (x, weight)) for y in (ours, theirs)), strict=True):
            torch.testing.assert_close(one, other)


def linked(schema: str, **changes: object) -> Op:
    """rms_norm of another name, with a backward of the given schema that is PyTorch's."""
    forward = rms_norm.SPEC.schema.replace("rms_norm", changes.pop("name"))
    spec = dataclasses.replace(rms_norm.BACKWARD_SPEC, schema=schema, **changes)
    return Op(dataclasses.replace(rms_norm.SPEC, schema=forward, gradient=Gradient(Op(spec, ()))), ())


ARGUMENTS = "Tensor input, Tensor weight, float eps, Tensor rstd"


class _Mode(TorchDispatchMode):
    """As FlopCounterMode or selective checkpoints: every operator is called by the mode."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_derived_backward_works_in_a_dispatch_mode_and_compiled_alone():
    x, weight = torch.randn(5, 7, requires_grad=True), torch.randn(7, requires_grad=True)
    expected = torch.autograd.grad(rms_norm.eager(x, weight, 1e-6)[0].cos().sum(), (x, weight))
    with _Mode():
        found = torch.autograd.grad(rms_norm.rms_norm(x, weight).cos().sum(), (x, weight))
    torch.testing.assert_close(found, expected)
    args = rms_norm.BACKWARD.spec.arguments(rms_norm.BACKWARD.spec.cases[0], torch.float32, torch.device("cpu"), 0)
    compiled = torch.compile(lambda *args: rms_norm.BACKWARD(*args), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*args), rms_norm.BACKWARD(*args))


def test_a_second_derivative_through_a_saved_output_is_not_dropped():
    """The backward is differentiated by its arguments alone, as if rstd did not depend on input."""

    def partial(saved, grad_input, grad_weight):
        given = [saved.grad_output, saved.input, saved.weight, saved.rstd]

        def backward(dy, x, w, r):
            g = dy * w
            dx = r[:, None] * (g - x * r[:, None] ** 2 * (g * x).mean(1, keepdim=True))
            return dx, (dy * x * r[:, None]).sum(0)

        found = torch.func.vjp(backward, *given)[1]((grad_input, grad_weight))
        return dict(zip(("grad_output", "input", "weight", "rstd"), found, strict=True))

    gradient = Gradient(partial, saves=("grad_output", "input", "weight", "rstd"))
    schema = f"tests::partial_backward(Tensor grad_output, {ARGUMENTS}) -> (Tensor grad_input, Tensor grad_weight)"
    op = linked(schema, name="partial", gradient=gradient)
    x, weight = torch.randn(3, 4, requires_grad=True), torch.ones(4)
    (once,) = torch.autograd.grad(op.call(x, weight, 1e-6).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="flows through the output .rstd..* add the argument 'grad_rstd'"):
        once.sum().backward()


@pytest.mark.parametrize(
    "name,schema,message",
    [
        (
            "unknown_output",
            f"tests::b1(Tensor grad_result, {ARGUMENTS}) -> (Tensor grad_input, Tensor grad_weight)",
            "takes 'grad_result', but output, rstd has no 'result'",
        ),
        (
            "unknown_argument",
            f"tests::b2(Tensor grad_output, {ARGUMENTS}, bool needs_x=True) -> (Tensor grad_input, Tensor grad_weight)",
            "takes 'needs_x', but input, weight, eps has no 'x'",
        ),
        (
            "unknown_gradient",
            f"tests::b3(Tensor grad_output, {ARGUMENTS}) -> (Tensor grad_x, Tensor grad_weight)",
            "returns 'grad_x', expected some of grad_input, grad_weight",
        ),
    ],
)
def test_names_of_a_linked_backward(name, schema, message):
    outputs = {key.replace("grad_input", "grad_x") if "grad_x" in schema else key: value
               for key, value in rms_norm.BACKWARD_SPEC.outputs.items()}  # fmt: skip
    op = linked(schema, name=name, outputs=outputs, gradient=None)
    with pytest.raises(ValueError, match=message):
        op.call(torch.ones(2, 2), torch.ones(2), 1e-6)


def test_the_schema_of_a_derived_backward_has_every_argument():
    with pytest.raises(
        ValueError, match="b4: expected every argument of rms_norm, got no eps; shape_<argument> can take"
    ):
        backward_spec(rms_norm.SPEC, "b4(Tensor grad_output, Tensor input, Tensor weight) -> (Tensor grad_input)")


def test_an_output_of_a_derived_backward_is_the_gradient_of_an_argument():
    schema = "b5(Tensor grad_output, Tensor input, Tensor weight, float eps) -> (Tensor grad_input, Tensor grad_w)"
    with pytest.raises(ValueError, match="b5 returns 'grad_w', expected some of grad_input, grad_weight$"):
        backward_spec(rms_norm.SPEC, schema)


def test_needs_of_a_derived_backward_are_true_by_default():
    """The schema gives no value; the attributes of a case can give one, and an absent argument needs no gradient."""
    spec = Spec(
        schema="tests::scaled(Tensor x, Tensor? scale) -> Tensor",
        outputs={"output": Output(like="x")},
        reference=lambda x, scale: x.double() * (1 if scale is None else scale.double()),
        inputs=lambda case, dtype, device, seed: {
            "x": torch.ones(3, dtype=dtype),
            "scale": torch.ones(3, dtype=dtype) if case.sizes["scaled"] else None,
        },
        eager=lambda x, scale: x if scale is None else x * scale,
        cost=lambda x, scale: Cost(0),
    )
    schema = "tests::scaled_backward(Tensor grad_output, Tensor x, Tensor? scale, bool needs_x, bool needs_scale)"
    backward = backward_spec(spec, f"{schema} -> (Tensor grad_x, Tensor grad_scale)")

    def needs(case: Case) -> tuple[bool, bool]:
        return backward.arguments(case, torch.float32, torch.device("cpu"), 0)[3:]

    assert needs(Case("both", {"scaled": 1})) == (True, True)
    assert needs(Case("plain", {"scaled": 0})) == (True, False)
    assert needs(Case("scale", {"scaled": 1}, {"needs_x": False})) == (False, True)


def test_eager_that_leaves_an_output_out():
    spec = dataclasses.replace(
        rms_norm.SPEC, schema=rms_norm.SPEC.schema.replace("rms_norm", "short"), eager=lambda x, w, eps: x
    )
    with pytest.raises(RuntimeError, match="eager returned 1 outputs, expected .* saved ones too: output, rstd"):
        Op(spec, ()).call(torch.ones(2, 2), torch.ones(2), 1e-6)


def picked(square: bool) -> Spec:
    """Rows of a table, or their squares, whose gradient depends on the values of the table."""
    power = 1 + square
    return Spec(
        schema="tests::picked(Tensor table, Tensor rows) -> Tensor",
        outputs={"output": Output(shape=lambda table, rows: (len(rows), table.shape[1]))},
        reference=lambda table, rows: table.double()[rows] ** power,
        inputs=lambda case, dtype, device, seed: {
            "table": torch.randn(case.sizes["n"], 3, dtype=dtype, generator=torch.Generator().manual_seed(seed)),
            "rows": torch.arange(case.sizes["n"]) // 2,
        },
        eager=lambda table, rows: table[rows] ** power,
        cost=lambda table, rows: Cost(2 * rows.numel() * 3 * table.element_size()),
        cases=(Case("some", {"n": 5}),),
    )


PICKED_BACKWARD = "tests::picked_backward(Tensor grad_output, Tensor rows, int[] shape_table) -> Tensor grad_table"


def test_a_shape_takes_the_place_of_a_tensor_whose_values_do_not_matter():
    spec = picked(square=False)
    backward = Op(backward_spec(spec, PICKED_BACKWARD), ())
    op = Op(dataclasses.replace(spec, gradient=Gradient(backward)), ())
    assert lab.verify_gradient(op, device="cpu").right
    case, cpu = spec.cases[0], torch.device("cpu")
    grad, rows, shape = args = backward.spec.arguments(case, torch.float32, cpu, 0)
    assert (grad.shape, shape) == ((5, 3), (5, 3))
    assert backward.allocate(*args)[0].dtype == torch.float32 and backward.allocate(*args)[0].shape == (5, 3)
    expected = torch.zeros(5, 3).index_add(0, rows, grad)
    torch.testing.assert_close(backward(*args), expected)
    assert backward.spec.cost(*args).bytes == grad.nbytes + rows.nbytes + expected.nbytes
    table = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(op, (table, rows)) and torch.autograd.gradgradcheck(op, (table, rows))


def test_a_gradient_that_depends_on_the_values_does_not_take_a_shape_alone():
    spec = picked(square=True)
    op = Op(dataclasses.replace(spec, gradient=Gradient(Op(backward_spec(spec, PICKED_BACKWARD), ()))), ())
    verdict = lab.verify_gradient(op, device="cpu")
    assert "picked_backward's reference: the gradient of table" in verdict.failures[0].message
