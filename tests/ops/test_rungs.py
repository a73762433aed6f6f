"""Every rung of every operation against the float64 reference: emulated on the CPU, and on a GPU where there is one."""

from __future__ import annotations

import math

import pytest
import torch
from tests.ops.conftest import ALIKE, EVERY_OP, TWINS, problem, rungs, sample, sampled_dtypes
from tests.sampled import FULL

from warpwise import lab, operation
from warpwise.lab.errors import VacuousProblem
from warpwise.lab.verify.impostors import require_no_impostor


@pytest.mark.parametrize("complete", [False, pytest.param(True, id="complete", marks=FULL)])
@pytest.mark.parametrize("op,rung", rungs(device="cpu", slow=True))
def test_rung_is_right_on_the_cpu(op, rung, complete):
    """One seed: the emulator checks every access, and the cases hold every kind of shape and layout.

    `make test-full` verifies every case in every dtype, `make test` the rung's `sample`.
    """
    dtypes, cases = (None, None) if complete else sample(op, rung)
    if not complete:
        others = [case for case in op.spec.cases if case not in cases]
        while others and not rejects_impostors(op, dtypes, cases):
            cases += [others.pop() for _ in others[:2]]
    verdict = lab.verify(
        op, rung, device="cpu", dtypes=dtypes, cases=cases, seeds=(0,), problem=problem(op.name, "cpu")
    )
    assert verdict.right, str(verdict)


@pytest.mark.parametrize(
    "name,case,dtype,config",
    [pytest.param(name, *how, id=name) for name, how in ALIKE.items() if isinstance(how, tuple)],
)
def test_a_rung_like_another_is_right_once(name, case, dtype, config):
    """What it has beside the main loop of the other: its epilogue, operands, batches, promotions."""
    op, rung = operation.get(name.split()[0]), operation.get(name.split()[0]).rung(name.split()[1])
    instance = problem(op.name, "cpu").make(next(each for each in op.spec.cases if each.name == case), dtype, 0)
    outputs = op.allocate(*instance.args)
    op.launch(rung.at(config) if config else rung, outputs, *instance.args)
    for position, found in enumerate(instance.outputs(outputs, instance.args)):
        comparison = instance.compare(position, found)
        assert comparison.right, str(comparison)


@pytest.mark.parametrize("op", EVERY_OP)
def test_every_dtype_is_in_the_samples_of_the_rungs(op):
    """Or in those of other rungs; of dtypes that differ in a conversion one is enough."""
    verified = [rung for rung in op.rungs if "cpu" in rung.devices and f"{op.name} {rung.name}" not in ALIKE]
    found = {dtype for rung in verified for dtype in sampled_dtypes(op, rung)}
    taken = {dtype for rung in verified for dtype in op.spec.dtypes if rung.dtypes is None or dtype in rung.dtypes}
    of_twins = dict(zip(TWINS.values(), TWINS, strict=True)) | TWINS
    assert not {dtype for dtype in taken if dtype not in found and of_twins.get(dtype) not in found}


def rejects_impostors(op, dtypes, cases) -> bool:
    """False if some wrong kernel passes these cases: then more are verified."""
    try:
        for dtype in dtypes:
            require_no_impostor(problem(op.name, "cpu"), dtype, tuple(cases), (0,))
    except VacuousProblem:
        return False
    return True


@pytest.mark.gpu
@pytest.mark.parametrize("op,rung", rungs(device="cuda"))
def test_rung_is_right_on_the_gpu(op, rung):
    verdict = lab.verify(op, rung, device="cuda", problem=problem(op.name, "cuda"))
    assert verdict.right, str(verdict)


@pytest.mark.gpu
@pytest.mark.parametrize("op", EVERY_OP)
def test_the_chosen_rung_is_right(op):
    """A call on CUDA tensors: the rung that the operation chooses takes the arguments and is right."""
    for case in op.spec.cases:
        for dtype in op.spec.dtypes:
            args = op.spec.arguments(case, dtype, torch.device("cuda"), 0)
            name = op.choice(*args).name
            assert name is None or op.refusal(op.rung(name), *args) is None, f"{case} {dtype}: {name}"
            instance = problem(op.name, "cuda").instance(case, dtype, 0)
            for position, tensor in enumerate(instance.eager(op)):
                by_pytorch = name is None and _rounded_often(instance, position, tensor)
                assert by_pytorch or instance.compare(position, tensor).right, f"{case} {dtype}: {name}"


@pytest.mark.parametrize("op", EVERY_OP)
def test_the_default_is_a_rung_that_takes_the_arguments(op):
    """Checked without a GPU: for every case the default is PyTorch or a rung that takes it."""
    for case in (*op.spec.cases, *_small_timing_cases(op)):
        for dtype in op.spec.dtypes:
            args = op.spec.arguments(case, dtype, torch.device("cpu"), 0)
            name = op.default(*args)
            if name is None:
                continue
            reason = op.unsupported(op.rung(name), *args)
            assert reason is None, f"{case} {dtype}: {name} {reason}"


def _small_timing_cases(op):
    """The timing cases of at most 2**20 elements."""
    for case in op.spec.sizes:
        if math.prod(max(size, 1) for size in case.sizes.values()) <= 1 << 20:
            yield case


@pytest.mark.parametrize("op", EVERY_OP)
def test_pytorch_is_right(op):
    """What a public function computes on CPU tensors, and what the rungs are timed against."""
    for case in op.spec.cases:
        for dtype in op.spec.dtypes:
            instance = problem(op.name, "cpu").instance(case, dtype, 0)
            templates = instance.outputs(op.allocate(*instance.args), instance.args)
            for position, (tensor, template) in enumerate(zip(instance.eager(op), templates, strict=True)):
                assert (tensor.shape, tensor.dtype, tensor.stride()) == (
                    template.shape,
                    template.dtype,
                    template.stride(),
                )
                comparison = instance.compare(position, tensor)
                assert comparison.right or _rounded_often(instance, position, tensor), f"{case} {dtype}: {comparison}"


def _rounded_often(instance, position, tensor) -> bool:
    """PyTorch rounds intermediate results of 2-byte dtypes: four roundings are allowed."""
    if not tensor.dtype.is_floating_point or tensor.dtype.itemsize != 2:
        return False
    result = instance.results[position]
    error = (tensor.double() - result.reference).abs()
    return bool((error <= 2 * torch.finfo(tensor.dtype).eps * result.magnitude).all())
