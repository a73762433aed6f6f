"""``machine.fidelity``: each executed instruction is exact, approximate or unsupported."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.machine.launching import machine_run

from warpwise import cuda, machine
from warpwise.lab.explain import explain
from warpwise.machine import grading

SOURCE = r"""
extern "C" __global__ void timed(const float* x, float* y, long long* cycles, int reduces) {
  const long long start = clock64();
  y[threadIdx.x] = __expf(x[threadIdx.x]) + 1.0f;
  cycles[threadIdx.x] = clock64() - start;
  float sum = 0.0f;
  if (reduces)
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(sum) : "l"(x) : "memory");
  if (reduces) y[threadIdx.x] += sum;
}
"""


def arguments(reduces: int) -> tuple:
    return torch.zeros(32), torch.zeros(32), torch.zeros(32, dtype=torch.int64), reduces


def graded(found: tuple[machine.grading.InstructionFidelity, ...]) -> dict[str, machine.grading.InstructionFidelity]:
    return {each.instruction: each for each in found}


def test_every_opcode_carries_its_grade() -> None:
    known = grading.opcodes()
    assert len(known) > 100 and known["FADD"] == known["IMAD"] == ""
    assert "2 ulp" in known["MUFU"] and "rounded" in known["HGMMA"] and "requests" in known["UTMALDG"]


def test_the_executed_instructions_are_listed_with_their_grade_and_lines() -> None:
    launcher = cuda.load(SOURCE)["timed"][1, 32]
    counts = machine_run(launcher, arguments(0))
    found = graded(machine.fidelity(counts.program, counts))
    exponential = found["MUFU.EX2"]
    assert exponential.grade == "approximate" and exponential.executed == 1 and exponential.lines[0][1] == 4
    clocks = [each for name, each in found.items() if name.startswith("CS2R") and each.grade == "approximate"]
    assert clocks and "clocks" in clocks[0].note
    assert found["FADD"].grade == "exact" and found["FADD"].note == ""
    executed = int(np.sum(counts.table[:, 0]))
    assert sum(each.executed for each in found.values()) == executed
    # An unsupported instruction is listed although this run does not execute it.
    (missing,) = [each for each in found.values() if each.grade == "unsupported"]
    assert missing.executed == 0 and missing.lines[0][1] == 8


def test_a_run_stops_at_an_unsupported_instruction_and_names_it_with_its_line() -> None:
    launcher = cuda.load(SOURCE)["timed"][1, 32]
    with pytest.raises(machine.Unsupported, match=r"unsupported instruction .*LDGMC.* at .*:8"):
        machine_run(launcher, arguments(1))
    with pytest.raises(cuda.UnsupportedFeature, match=r"multimem\.ld_reduce[\s\S]*kernel.cu:8"):
        launcher(*arguments(1))


def test_an_explanation_has_the_list() -> None:
    found = explain(cuda.load(SOURCE)["timed"][1, 32], *arguments(0))
    assert graded(found.fidelity)["MUFU.EX2"].grade == "approximate"
    assert any(each["grade"] == "unsupported" for each in found.to_dict()["fidelity"])
