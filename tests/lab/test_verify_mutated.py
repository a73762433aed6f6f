"""Operations that mutate arguments, lists of them too: results are named, guarded, and compared with the new values."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.lab import toys

from warpwise.lab import Problem, ProblemError, VacuousProblem, verify
from warpwise.operation import Case, Cost, Output, Spec

CPU = torch.device("cpu")
COUNT = 3


def inputs(case, dtype, device, seed):
    count, n = COUNT if case.sizes["n"] > 1 else 1, case.sizes["n"]
    draw = lambda first: [
        toys.draw(case, (n + at,), dtype, device, 100 * seed + first + at, 100.0) for at in range(count)
    ]
    return {"params": draw(0), "grads": draw(50), "rate": 0.5}


def eager(params, grads, rate):
    for param, grad in zip(params, grads, strict=True):
        param.sub_(rate * grad)
    return torch.stack([grad.abs().amax() if grad.numel() else grad.new_zeros(()) for grad in grads])


STEP = Spec(
    schema="toys::step(Tensor(a!)[] params, Tensor[] grads, float rate) -> Tensor largest",
    outputs={
        "largest": Output(shape=lambda params, *rest: (len(params),)),
        "params": Output(terms=2),
    },
    reference=lambda params, grads, rate: (
        torch.stack(
            [grad.double().abs().amax() if grad.numel() else torch.zeros((), dtype=torch.float64) for grad in grads]
        ),
        [param.double() - rate * grad.double() for param, grad in zip(params, grads, strict=True)],
    ),
    inputs=inputs,
    eager=eager,
    cost=lambda params, *rest: Cost(3 * sum(param.nbytes for param in params)),
    cases=toys.cases(n=(37, 16)),
)


def step(largest, params, grads, rate):
    largest.copy_(eager(params, grads, rate))


def wrong_element(largest, params, grads, rate):
    step(largest, params, grads, rate)
    if len(params) > 1:
        params[1][3] += 1


def leaves_the_last(largest, params, grads, rate):
    step(largest, params[:-1] + [params[-1].clone()], grads, rate)


def changes_a_gradient(largest, params, grads, rate):
    step(largest, params, grads, rate)
    grads[-1].zero_()


def writes_past_a_parameter(largest, params, grads, rate):
    step(largest, params, grads, rate)
    last = params[-1]
    last.as_strided((len(last) + 1,), (1,), last.storage_offset())[len(last)] = 0


def writes_before_the_output(largest, params, grads, rate):
    step(largest, params, grads, rate)
    largest.as_strided((1,), (1,), largest.storage_offset() - 1).fill_(0)


def steps_twice(largest, params, grads, rate):
    step(largest, params, grads, rate)
    step(largest, params, grads, rate)


def nan_in_the_second(largest, params, grads, rate):
    step(largest, params, grads, rate)
    params[min(1, len(params) - 1)][0] = float("nan")


BROKEN = [
    (wrong_element, "value", "params[1][3] is"),
    (leaves_the_last, "value", "params[2][0] is"),
    (changes_a_gradient, "input", "changed grads, first at byte"),
    (writes_past_a_parameter, "guard", "wrote outside params[2], at byte 72 of 72"),
    (writes_before_the_output, "guard", "wrote outside largest, 4 bytes before its first byte"),
    (steps_twice, "value", "params[0][0] is"),
    (nan_in_the_second, "value", "params[1][0] is nan"),
]


def test_a_right_rung_is_right():
    verdict = verify(toys.op(STEP, step), "step", device=CPU)
    assert verdict.right, str(verdict)


@pytest.mark.parametrize("launch,kind,said", BROKEN, ids=[launch.__name__ for launch, _, _ in BROKEN])
def test_a_failure_names_the_tensor(launch, kind, said):
    verdict = verify(toys.op(STEP, launch), launch.__name__, device=CPU)
    assert verdict.status == "wrong"
    assert verdict.failures[0].kind == kind
    assert said in verdict.failures[0].message


def test_the_message_of_a_changed_argument_says_how_the_schema_marks_it():
    failure = verify(toys.op(STEP, changes_a_gradient), "changes_a_gradient", device=CPU).failures[0]
    assert "the schema does not mark it as mutated, as in 'Tensor(a!) grads'" in failure.message


def test_the_arguments_of_an_instance_stay_as_they_were():
    """Each run gets copies of the mutated arguments; a changed input is restored."""
    problem = Problem(toys.op(STEP, step, changes_a_gradient), CPU)
    instance = problem.instance(STEP.cases[0], torch.float32, 0)
    before = [value.clone() for value in (*instance.args[0], *instance.args[1])]
    for name in ("step", "changes_a_gradient"):
        verify(problem.op, name, device=CPU, problem=problem, cases=STEP.cases[:1])
        assert all(
            torch.equal(one, other) for one, other in zip(before, (*instance.args[0], *instance.args[1]), strict=True)
        )


def test_layouts_of_mutated_arguments_stay():
    """A strided rung gets the strides of the case, and a write between the elements is a write outside."""
    seen = []

    def looks(largest, params, grads, rate):
        seen.append(params[0].stride())
        step(largest, params, grads, rate)

    def fills_the_gaps(largest, params, grads, rate):
        step(largest, params, grads, rate)
        for param in params:
            if param.stride(0) == 2 and len(param) > 1:
                param.as_strided((1,), (1,), param.storage_offset() + 1).zero_()

    strided = [case for case in STEP.cases if case.layout == "strided"]
    assert verify(toys.op(STEP, looks, strided=True), "looks", device=CPU, cases=strided).right
    assert set(seen) == {(2,)}
    op = toys.op(STEP, fills_the_gaps, strided=True)
    failure = verify(op, "fills_the_gaps", device=CPU, cases=strided).failures[0]
    assert failure.kind == "guard"
    assert "wrote outside params[0], at byte 4" in failure.message


def test_an_operation_that_returns_nothing():
    """The results are the mutated arguments alone."""
    spec = replace(
        STEP,
        schema="toys::shift_(Tensor(a!) x, float by) -> ()",
        outputs={},
        reference=lambda x, by: x.double() + by,
        inputs=lambda case, dtype, device, seed: {**toys.affine_inputs(case, dtype, device, seed), "by": 3.5},
        eager=lambda x, by: (x.add_(by), None)[1],
        cost=lambda x, by: Cost(2 * x.nbytes),
    )

    def shift(outputs, x, by):
        x.add_(by)

    def leaves(outputs, x, by):
        pass

    op = toys.op(spec, shift, leaves)
    assert verify(op, "shift", device=CPU).right
    assert "x[0] is" in str(verify(op, "leaves", device=CPU))


def test_an_operation_that_changes_nothing_is_vacuous():
    spec = replace(
        STEP,
        schema="toys::still_(Tensor(a!) x) -> ()",
        outputs={},
        reference=lambda x: x.double(),
        inputs=toys.affine_inputs,
        eager=lambda x: None,
        cost=lambda x: Cost(0),
    )
    with pytest.raises(VacuousProblem, match="x: an input returned"):
        verify(toys.op(spec, lambda outputs, x: None), "<lambda>", device=CPU)


def test_a_case_without_attributes_uses_the_defaults_of_the_schema():
    spec = replace(
        toys.AFFINE,
        schema="toys::line(Tensor x, float slope=2.0) -> Tensor",
        outputs={"output": Output(like="x", magnitude=lambda x, slope: slope * x.double().abs() + 1)},
        reference=lambda x, slope: slope * x.double() + 1,
        eager=lambda x, slope: slope * x + 1,
        cases=(*toys.AFFINE.cases, Case("steep", {"n": 40}, {"slope": 9.0})),
    )
    seen = set()

    def line(out, x, slope):
        seen.add(slope)
        out.copy_((slope * x.double() + 1).to(out.dtype))

    assert verify(toys.op(spec, line), "line", device=CPU).right
    assert seen == {2.0, 9.0}


def scaled(magnitude):
    """``STEP`` with this magnitude of the list ``params``."""
    return replace(STEP, outputs=STEP.outputs | {"params": Output(terms=2, magnitude=magnitude)})


def of_each(params, grads, rate):
    return [param.double().abs() + rate * grad.double().abs() for param, grad in zip(params, grads, strict=True)]


def test_each_tensor_of_a_list_has_a_magnitude_of_its_own():
    """An error of the second parameter is within the scale of the first, and far beyond its own."""

    def unequal(case, dtype, device, seed):
        made = inputs(case, dtype, device, seed)
        return made | {
            name: [v * 1e4 if not at else v for at, v in enumerate(made[name])] for name in made if name != "rate"
        }

    def slightly_off(largest, params, grads, rate):
        step(largest, params, grads, rate)
        params[min(1, len(params) - 1)].add_(1e-4)

    spec = replace(scaled(of_each), inputs=unequal)
    assert verify(toys.op(spec, step), "step", device=CPU).right
    verdict = verify(toys.op(spec, slightly_off), "slightly_off", device=CPU)
    assert verdict.failures[0].message.startswith("params[1][0] is")

    def largest(*args):
        return torch.stack([value.max() if value.numel() else value.sum() for value in of_each(*args)]).max()

    one_for_all = replace(scaled(largest), inputs=unequal)
    with pytest.raises(VacuousProblem, match=r"params\[1\]: values rounded to float16 passes"):
        verify(toys.op(one_for_all, step), "step", device=CPU)


WRONG_MAGNITUDES = [
    (lambda *args: of_each(*args)[:1], "the magnitude gives 1 tensors for params, expected 3"),
    (lambda *args: 3.0, r"params\[0\]: expected the magnitude to be a tensor of shape \(16,\), got float"),
    (lambda *args: of_each(*args)[0], r"params\[1\]: expected the magnitude to have shape \(17,\), got \(16,\)"),
]


@pytest.mark.parametrize("magnitude,said", WRONG_MAGNITUDES)
def test_a_magnitude_that_does_not_fit_is_refused(magnitude, said):
    with pytest.raises(ProblemError, match=said):
        verify(toys.op(scaled(magnitude), step), "step", device=CPU)
