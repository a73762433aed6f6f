"""``verify_gradient``: correct gradients pass, wrong ones are named, and an operation without one is an error."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from tests.lab import toys

from warpwise.lab import ProblemError, verify_gradient
from warpwise.operation import Case, Cost, Gradient, Op, Output, Spec

CPU = torch.device("cpu")
number = itertools.count()


def pair(case, dtype, device, seed):
    rows, columns = case.sizes["rows"], case.sizes["columns"]
    drawn = [
        toys.draw(case, shape, dtype, device, 2 * seed + at, 1.0)
        for at, shape in enumerate([(rows, columns), (columns,)])
    ]
    return {"x": drawn[0], "weight": drawn[1] if case.attributes.get("weighted", True) else None}


def product(x, weight):
    return x if weight is None else x * weight


def backward_reference(grad_output, x, weight, shape_x):
    found = product(grad_output, weight).double().reshape(shape_x)
    return found, None if weight is None else (grad_output.double() * x.double()).sum(0)


BACKWARD = Spec(
    schema=(
        "toys::scale_backward(Tensor grad_output, Tensor x, Tensor? weight, int[] shape_x)"
        " -> (Tensor grad_x, Tensor grad_weight)"
    ),
    outputs={
        "grad_x": Output(shape=lambda grad, x, weight, shape: shape),
        "grad_weight": Output(
            shape=lambda grad, x, *rest: x.shape[1:], present=lambda grad, x, weight, shape: weight is not None
        ),
    },
    reference=backward_reference,
    inputs=lambda case, dtype, device, seed: {},
    eager=lambda grad, x, weight, shape: tuple(
        None if one is None else one.to(grad.dtype) for one in backward_reference(grad, x, weight, shape)
    ),
    cost=lambda *args: Cost(0),
)


def scale(gradient: Gradient, **options) -> Op:
    """``x * weight`` with this gradient, under a name of its own, since calling it registers the name with PyTorch."""
    spec = Spec(
        schema=f"toys::scale_{next(number)}(Tensor x, Tensor? weight=None) -> Tensor",
        outputs={"output": Output(like="x")},
        reference=lambda x, weight: product(x.double(), None if weight is None else weight.double()),
        inputs=pair,
        eager=lambda x, weight: product(x, weight).clone(),
        cost=lambda x, weight: Cost(2 * x.nbytes),
        cases=(
            Case("even", {"rows": 4, "columns": 8}),
            Case("unweighted", {"rows": 4, "columns": 8}, {"weighted": False}),
            Case("empty", {"rows": 0, "columns": 8}),
            Case("huge", {"rows": 3, "columns": 5}, values="huge"),
            Case("strided", {"rows": 3, "columns": 5}, layout="strided"),
        ),
        gradient=gradient,
    )
    return Op(replace(spec, **options), ())


def linked(**options) -> Gradient:
    backward = replace(BACKWARD, schema=BACKWARD.schema.replace("scale_backward", f"scale_backward_{next(number)}"))
    return Gradient(Op(replace(backward, **options), ()))


def by_function(saved, grad):
    found = {"x": product(grad, saved.weight)}
    return found | ({} if saved.weight is None else {"weight": (grad * saved.x).sum(0)})


def gradient_of(function) -> Gradient:
    return Gradient(function, saves=("x", "weight"))


def test_a_right_gradient_by_a_function_passes_at_every_case_of_normal_values():
    verdict = verify_gradient(scale(gradient_of(by_function)), device=CPU)
    assert verdict.right, str(verdict)
    assert [result.case.name for result in verdict.cases] == ["even", "unweighted", "empty", "strided"]
    assert verdict.rung == "gradient"


def test_a_right_linked_operation_passes():
    verdict = verify_gradient(scale(linked()), device=CPU)
    assert verdict.right, str(verdict)


def test_an_error_in_the_second_derivative_says_how_to_do_without():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, grad, weight):
            return product(grad, weight)

        @staticmethod
        def backward(ctx, *grads):
            raise NotImplementedError("the derivative is not implemented.")

    verdict = verify_gradient(
        scale(gradient_of(lambda saved, grad: by_function(saved, grad) | {"x": Once.apply(grad, saved.weight)})),
        device=CPU,
    )
    assert verdict.failures[0].message == (
        "NotImplementedError: the derivative is not implemented (in the second derivative: if the backward operation "
        "has no gradient, give it gradient=None; a backward function must use differentiable operators)"
    )


def test_a_wrong_linked_reference_is_named():
    def wrong(grad_output, x, weight, shape_x):
        found, of_weight = backward_reference(grad_output, x, weight, shape_x)
        return found, None if of_weight is None else 1.001 * of_weight

    verdict = verify_gradient(scale(linked(reference=wrong)), device=CPU)
    assert verdict.status == "wrong"
    assert "scale_backward" in verdict.failures[0].message
    assert "'s reference: the gradient of weight[0] is" in verdict.failures[0].message
    assert {failure.case.name for failure in verdict.failures} == {"even", "strided"}


WRONG = {
    "a call: the gradient of x[0, 0] is": lambda saved, grad: by_function(saved, 1.001 * grad),
    "a call: the gradient of x[0, 0] is nan": lambda saved, grad: {"x": grad * float("nan")},
    "a call gives no gradient of weight": lambda saved, grad: {"x": product(grad, saved.weight)},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_gradient_of_a_call_is_named(message):
    verdict = verify_gradient(scale(gradient_of(WRONG[message])), device=CPU)
    assert verdict.status == "wrong"
    assert verdict.failures[0].message.startswith(message)


def test_an_operation_that_does_not_take_float64_is_compared_in_its_own_dtype():
    def check(x, weight):
        if x.dtype == torch.float64:
            raise TypeError("expected float32")

    assert verify_gradient(scale(gradient_of(by_function), check=check), device=CPU).right
    wrong = scale(gradient_of(WRONG["a call: the gradient of x[0, 0] is"]), check=check)
    assert verify_gradient(wrong, device=CPU).status == "wrong"


def test_the_first_floating_dtype_is_taken():
    op = scale(gradient_of(by_function), dtypes=(torch.int32, torch.float32))
    assert {result.dtype for result in verify_gradient(op, device=CPU).cases} == {torch.float32}


def test_nan_and_infinity_must_be_met_by_the_same():
    def rooted(function):
        return scale(
            Gradient(function, saves=("x",)),
            schema=f"toys::root_{next(number)}(Tensor x) -> Tensor",
            inputs=lambda case, dtype, device, seed: {"x": torch.tensor([0.0, 1.0, -1.0], dtype=dtype)},
            reference=lambda x: x.double().sqrt(),
            eager=torch.sqrt,
            cost=lambda x: Cost(0),
        )

    right = lambda saved, grad: {"x": grad / (2 * saved.x.sqrt())}
    assert verify_gradient(rooted(right), device=CPU).right
    finite = lambda saved, grad: {"x": right(saved, grad)["x"].nan_to_num()}
    assert "gradient of x[0] is" in verify_gradient(rooted(finite), device=CPU).failures[0].message
    doubled = lambda saved, grad: {"x": 2 * right(saved, grad)["x"]}
    assert "gradient of x[1] is" in verify_gradient(rooted(doubled), device=CPU).failures[0].message


def test_what_has_no_gradient_is_refused():
    with pytest.raises(ProblemError, match="affine: has no gradient to verify"):
        verify_gradient(toys.op(toys.AFFINE), device=CPU)
    with pytest.raises(ProblemError, match="none of its dtypes is floating-point"):
        verify_gradient(scale(gradient_of(by_function), dtypes=(torch.int32,)), device=CPU)
    detached = lambda x, weight: product(x, weight).double().detach()
    with pytest.raises(ProblemError, match="the reference cannot be differentiated: no output requires a gradient"):
        verify_gradient(scale(gradient_of(by_function), reference=detached), device=CPU)
