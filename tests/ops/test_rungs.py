"""Every rung of every operation against the float64 reference: emulated on the CPU, and on a GPU where there is one."""

from __future__ import annotations

import pytest
import torch
from tests.ops.conftest import EVERY_OP, problem, rungs
from tests.sampled import FULL

from warpwise import lab


@pytest.mark.parametrize("half", [False, pytest.param(True, id="float16", marks=FULL)])
@pytest.mark.parametrize("op,rung", rungs(device="cpu"))
def test_rung_is_right_on_the_cpu(op, rung, half):
    """One seed: the emulator checks every access, and the cases hold every kind of shape and layout.

    Where a rung takes bfloat16, its kernels of float16 differ by a conversion, and are verified by themselves.
    """
    taken = [dtype for dtype in op.spec.dtypes if rung.dtypes is None or dtype in rung.dtypes]
    apart = torch.bfloat16 in taken
    dtypes = [dtype for dtype in taken if (apart and dtype == torch.float16) == half]
    if half and not dtypes:
        pytest.skip(f"{rung.name} has no float16 beside bfloat16")
    verdict = lab.verify(op, rung, device="cpu", dtypes=dtypes, seeds=(0,), problem=problem(op.name, "cpu"))
    assert verdict.right, str(verdict)


@pytest.mark.gpu
@pytest.mark.parametrize("op,rung", rungs(device="cuda"))
def test_rung_is_right_on_the_gpu(op, rung):
    verdict = lab.verify(op, rung, device="cuda", problem=problem(op.name, "cuda"))
    assert verdict.right, str(verdict)


@pytest.mark.gpu
@pytest.mark.parametrize("op", EVERY_OP)
def test_the_default_rung_is_right(op):
    """The public way on CUDA tensors: the rung that the operation chooses takes what it is chosen for."""
    for case in op.spec.cases:
        for dtype in op.spec.dtypes:
            args = op.spec.inputs(case, dtype, torch.device("cuda"), 0)
            name = op.default(*args)
            assert name is None or op.refusal(op.rung(name), *args) is None, f"{case} {dtype}: {name}"
            instance = problem(op.name, "cuda").instance(case, dtype, 0)
            outputs = op(*instance.args)
            made = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
            for position, tensor in enumerate(made):
                by_pytorch = name is None and _rounded_often(instance, position, tensor)
                assert by_pytorch or instance.compare(position, tensor).right, f"{case} {dtype}: {name}"


@pytest.mark.parametrize("op", EVERY_OP)
def test_the_default_is_a_rung_that_takes_the_arguments(op):
    """Checked without a GPU: every case that a CUDA device may meet has a rung that does not refuse it, or PyTorch."""
    for case in (*op.spec.cases, *_small_timing_cases(op)):
        for dtype in op.spec.dtypes:
            args = op.spec.inputs(case, dtype, torch.device("cpu"), 0)
            name = op.default(*args)
            if name is None:
                continue
            rung = op.rung(name)
            assert rung.dtypes is None or dtype in rung.dtypes, f"{case} {dtype}: {name} takes {rung.dtypes}"
            assert rung.limits(*args) is None, f"{case} {dtype}: {name} {rung.limits(*args)}"


def _small_timing_cases(op):
    """Timing sizes are for a GPU; those below a million elements an axis product are looked at here too."""
    for case in op.spec.sizes:
        product = 1
        for size in case.sizes.values():
            product *= max(size, 1)
        if product <= 1 << 20:
            yield case


@pytest.mark.parametrize("op", EVERY_OP)
def test_pytorch_is_right(op):
    """What a public function computes on CPU tensors, and what the rungs are compared with in speed."""
    for case in op.spec.cases:
        for dtype in op.spec.dtypes:
            instance = problem(op.name, "cpu").instance(case, dtype, 0)
            outputs = op(*instance.args)
            made = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
            promised = op.spec.outputs(*instance.args)
            templates = (promised,) if isinstance(promised, torch.Tensor) else promised
            for position, (tensor, template) in enumerate(zip(made, templates, strict=True)):
                assert (tensor.shape, tensor.dtype, tensor.stride()) == (
                    template.shape,
                    template.dtype,
                    template.stride(),
                )
                comparison = instance.compare(position, tensor)
                assert comparison.right or _rounded_often(instance, position, tensor), f"{case} {dtype}: {comparison}"


def _rounded_often(instance, position, tensor) -> bool:
    """PyTorch's own kernels round intermediate results of 2-byte dtypes too: four roundings are let through."""
    if not tensor.dtype.is_floating_point or tensor.dtype.itemsize != 2:
        return False
    error = (tensor.double() - instance.references[position]).abs()
    return bool((error <= 2 * torch.finfo(tensor.dtype).eps * instance.magnitudes[position]).all())
