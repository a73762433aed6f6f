"""Every CUDA rung of every operation: SASS results against the emulator."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch
from tests.machine.launching import machine_run
from tests.ops.conftest import EXECUTED, OF, one_of, rungs, sample
from tests.sampled import FULL

from warpwise.cuda.launch.launcher import Launcher
from warpwise.operation import Op, Rung

# The compilers contract and order sums differently, and MUFU exponentials are approximate: the tolerance is relative to
# the largest value.
_FLOATS = {"float": (np.float32, 4e-6), "double": (np.float64, 1e-14), "__half": (np.float16, 2e-3)}
_BFLOAT16 = 2**-7


# Scratch memory that the order of the threads determines: any forest with the same roots is right, and the next launch
# writes the roots, which are compared.
ANY_ORDER = {("components_link", "parent")}


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=FULL)])
@pytest.mark.parametrize("op,rung", one_of(OF, rungs(language="cuda", slow=True), EXECUTED))
def test_sass_results_equal_the_emulator(op: Op, rung: Rung, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    emulate = Launcher.__call__

    def both(launcher: Launcher, *args: Any, **options: Any) -> None:
        bound = launcher.kernel.binder(launcher.kernel.build()).cpu(args)
        counts = machine_run(launcher, args)
        emulate(launcher, *args, **options)
        for part in bound:
            if hasattr(part, "data") or part.const or not part.nbytes:
                continue
            if (launcher.kernel.expression, part.name) in ANY_ORDER:
                continue
            emulated = np.frombuffer((ctypes.c_char * part.nbytes).from_address(part.address), np.uint8)
            _assert_equal(
                counts.outputs[part.name], emulated, part.element, f"{launcher.kernel.expression}: {part.name}"
            )
            compared.append(part.name)

    monkeypatch.setattr(Launcher, "__call__", both)
    (dtype, *_), cases = sample(op, rung)  # whose kernels are emulated in tests/ops/test_rungs.py too
    whole = [case for case in cases if all(case.sizes.values())]
    if number >= len(whole):
        pytest.skip("the rung has one sampled case")
    case = whole[number]
    args = op.spec.arguments(case, dtype, torch.device("cpu"), 0)
    op.launch(rung, op.allocate(*args), *args)
    assert compared


def _assert_equal(machine: np.ndarray, emulated: np.ndarray, element: str, message: str) -> None:
    if element == "__nv_bfloat16":
        machine, emulated = (
            (each.view(np.uint16).astype(np.uint32) << 16).view(np.float32) for each in (machine, emulated)
        )
        tolerance = _BFLOAT16
    elif element in _FLOATS:
        kind, tolerance = _FLOATS[element]
        machine, emulated = machine.view(kind), emulated.view(kind)
    else:
        np.testing.assert_array_equal(machine, emulated, err_msg=message)
        return
    finite = emulated[np.isfinite(emulated)]
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    np.testing.assert_allclose(machine, emulated, rtol=0, atol=tolerance * largest, equal_nan=True, err_msg=message)
