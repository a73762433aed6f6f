"""Problems that an impostor solves are refused, with the impostor's name and what to change."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.lab import toys

from warpwise.lab import Problem, VacuousProblem, verify
from warpwise.lab.verify.impostors import require_no_impostor, require_no_impostor_at
from warpwise.operation import Case, Output

CPU = torch.device("cpu")


def constant_inputs(value):
    def inputs(case, dtype, device, seed):
        return {"x": torch.full((case.sizes["n"],), value, dtype=dtype, device=device)}

    return inputs


def double(reference):
    return lambda x: reference(x.double())


VACUOUS = [
    ("zeros", replace(toys.AFFINE, reference=double(lambda x: 0 * x))),
    ("a constant", replace(toys.AFFINE, reference=double(lambda x: 0 * x + 3))),
    ("an input returned", replace(toys.AFFINE, reference=double(lambda x: x))),
    ("another seed's output", replace(toys.AFFINE, reference=lambda x: torch.arange(len(x), dtype=torch.float64) / 3)),
    ("values rounded to float16", replace(toys.AFFINE, reference=double(torch.sign), dtypes=(torch.float32,))),
    ("values rounded to float32", replace(toys.AFFINE, reference=double(torch.sign), dtypes=(torch.float64,))),
    ("zeros", toys.judged(toys.AFFINE, magnitude=lambda x: 1e9 * x.double().abs() + 1e9)),
    ("a constant", replace(toys.AFFINE, inputs=constant_inputs(1.0))),
    ("a constant", replace(toys.COUNTS, reference=lambda x: torch.full((16,), 7))),
]


@pytest.mark.parametrize("impostor,spec", VACUOUS, ids=[f"{name}-{spec.dtypes[0]}" for name, spec in VACUOUS])
def test_a_vacuous_problem_is_refused_before_any_rung_runs(impostor, spec):
    ran = []

    def rung(out, *args):
        ran.append(args)

    with pytest.raises(VacuousProblem, match="What to change: ") as raised:
        verify(toys.op(spec, rung), "rung", device=CPU)
    assert impostor in str(raised.value)
    assert not ran


@pytest.mark.parametrize(
    "spec", [toys.AFFINE, toys.ROW_SUM, toys.SOFTMAX, toys.MATMUL, toys.COUNTS], ids=lambda spec: spec.name
)
def test_sound_problems_are_accepted(spec):
    problem = Problem(toys.op(spec), CPU)
    for dtype in spec.dtypes:
        require_no_impostor(problem, dtype, spec.cases, (0, 1, 2))
    assert len(problem.without_impostors) == len(spec.dtypes)
    for case in spec.sizes:
        require_no_impostor_at(problem, case, spec.dtypes[0], (0, 1))


def test_one_vacuous_output_of_two_is_enough():
    spec = replace(
        toys.AFFINE,
        schema="affine(Tensor x) -> (Tensor line, Tensor nothing)",
        outputs={"line": toys.AFFINE.outputs["output"], "nothing": Output(magnitude=lambda x: x.double().abs())},
        reference=lambda x: (2 * x.double() + 1, 0 * x.double()),
    )
    with pytest.raises(VacuousProblem, match="nothing: a constant, .* and zeros pass each of the"):
        require_no_impostor(Problem(toys.op(spec), CPU), torch.float32, spec.cases, (0, 1))


@pytest.mark.parametrize(
    "second,left_out",
    [
        (Output(shape=lambda x: (0,), magnitude=lambda x: x.double()[:0]), lambda x: x[:0]),
        (Output(present=lambda x: False), lambda x: None),
    ],
    ids=["without elements", "not present"],
)
def test_an_output_that_is_left_out_is_not_judged(second, left_out):
    spec = replace(
        toys.AFFINE,
        schema="affine(Tensor x) -> (Tensor line, Tensor rest)",
        outputs={"line": toys.AFFINE.outputs["output"], "rest": second},
        reference=lambda x: (2 * x.double() + 1, left_out(x.double())),
        eager=lambda x: (2 * x + 1, left_out(x)),
    )
    problem = Problem(toys.op(spec), CPU)
    assert not problem.instance(spec.cases[0], torch.float32, 0).empty
    require_no_impostor(problem, torch.float32, spec.cases, (0, 1))
    require_no_impostor_at(problem, spec.sizes[0], torch.float32, (0, 1))
    vacuous = replace(spec, reference=lambda x: (0 * x.double(), left_out(x.double())))
    with pytest.raises(VacuousProblem, match="line: "):
        require_no_impostor(Problem(toys.op(vacuous), CPU), torch.float32, spec.cases, (0, 1))


def test_a_sum_over_everything_has_one_element_and_is_no_constant():
    spec = replace(
        toys.AFFINE,
        outputs={"output": Output(shape=lambda x: (), terms=len, magnitude=lambda x: x.double().abs().sum())},
        reference=lambda x: x.double().sum(),
        dtypes=(torch.float32,),
    )
    require_no_impostor(Problem(toys.op(spec), CPU), torch.float32, spec.cases, (0, 1))
    nothing = toys.op(replace(spec, reference=lambda x: 0 * x.double().sum()))
    with pytest.raises(VacuousProblem, match="zeros"):
        require_no_impostor(Problem(nothing, CPU), torch.float32, spec.cases, (0, 1))


def test_a_counter_that_is_mutated_may_be_a_small_integer():
    """The step of an optimizer in float32: its new value is exact in float16, for every kernel."""

    def inputs(case, dtype, device, seed):
        x = toys.affine_inputs(case, dtype, device, seed)["x"]
        return {"x": x, "step": torch.tensor(float(seed + 3), device=device)}

    spec = replace(
        toys.AFFINE,
        schema="affine(Tensor x, Tensor(a!) step) -> Tensor",
        outputs={"output": Output(like="x", magnitude=lambda x, step: 2 * x.double().abs() + 1)},
        reference=lambda x, step: (2 * x.double() + 1, step.double() + 1),
        eager=lambda x, step: (2 * x + 1, step.add_(1))[0],
        cost=lambda x, step: toys.AFFINE.cost(x),
        inputs=inputs,
        dtypes=(torch.float32,),
    )
    require_no_impostor(Problem(toys.op(spec), CPU), torch.float32, spec.cases, (0, 1))
    unchanged = replace(spec, reference=lambda x, step: (2 * x.double() + 1, step.double()))
    with pytest.raises(VacuousProblem, match="step: an input returned passes"):
        require_no_impostor(Problem(toys.op(unchanged), CPU), torch.float32, spec.cases, (0, 1))


def test_a_timed_size_that_an_impostor_passes_is_refused():
    spec = replace(toys.AFFINE, inputs=constant_inputs(1.0), sizes=(Case("large", {"n": 4096}),))
    with pytest.raises(
        VacuousProblem,
        match=r"large\(n=4096\), torch.float32, output: a constant and another seed.s output pass at this size",
    ):
        require_no_impostor_at(Problem(toys.op(spec), CPU), spec.sizes[0], torch.float32, (0,))


def test_rounding_within_the_tolerance_of_a_long_sum_is_returned_not_refused():
    spec = toys.judged(toys.AFFINE, magnitude=lambda x: 3000 * (2 * x.double().abs() + 1))
    with pytest.raises(VacuousProblem, match="values rounded to float16 passes each of the 1 cases"):
        require_no_impostor(Problem(toys.op(spec), CPU), torch.float32, spec.cases[:1], (0, 1))
    assert require_no_impostor_at(Problem(toys.op(spec), CPU), spec.sizes[0], torch.float32, (0,)) == (
        "values rounded to float16",
    )
