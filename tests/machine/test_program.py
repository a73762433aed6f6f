"""Parsing of nvdisasm's output, scheduling bits and cubin sections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warpwise import cuda, machine
from warpwise.cuda.gpu import nvrtc
from warpwise.machine import disassemble, sass
from warpwise.machine.program import Operand, Program

TARGETS = {"sm_75": 0x160, "sm_80": 0x160, "sm_90": 0x210, "sm_100": 0x380}
SOURCE = """
__constant__ float weights[5];
__device__ int counter = 7;
template <class T>
__device__ T doubled(T x) { return x + x; }
__global__ void kernel(const float* x, char c, float* y, double d) {
  __shared__ float shared[33];
  extern __shared__ float dynamic[];
  shared[threadIdx.x] = x[threadIdx.x];
  dynamic[threadIdx.x] = c;
  __syncthreads();
  if (d > 0)
    y[threadIdx.x] = doubled(shared[32 - threadIdx.x]) * weights[c] + dynamic[5];
  atomicAdd(&counter, 1);
}
"""


@pytest.fixture(scope="module")
def module() -> cuda.Module:
    return cuda.load(SOURCE)


def _program(module: cuda.Module, target: str) -> Program:
    compiled = nvrtc.compile(module, "kernel", target)
    return machine.load_program(compiled.cubin, compiled.symbol)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("R5", Operand("register", 5)),
        ("R5.reuse", Operand("register", 5)),
        ("-RZ", Operand("register", 255, negated=True)),
        ("-|R7|", Operand("register", 7, negated=True, absolute=True)),
        ("|R7|.reuse", Operand("register", 7, absolute=True)),
        ("~R3", Operand("register", 3, inverted=True)),
        ("R4.64", Operand("register", 4, wide=True)),
        ("R4.H0_H0", Operand("register", 4, suffix="H0_H0")),
        ("R4.reuse.H1_H1", Operand("register", 4, suffix="H1_H1")),
        ("UR4", Operand("uniform", 4)),
        ("URZ", Operand("uniform", 63)),
        ("!P3", Operand("predicate", 3, inverted=True)),
        ("PT", Operand("predicate", 7)),
        ("UPT", Operand("uniform_predicate", 7)),
        ("0x3f", Operand("immediate", value=0x3F)),
        ("-0x5", Operand("immediate", value=-5)),
        ("1.5", Operand("immediate", value=0x3FC00000)),
        ("-0.5", Operand("immediate", value=0xBF000000)),
        ("5.9604644775390625e-08", Operand("immediate", value=0x33800000)),
        ("+INF", Operand("immediate", value=0x7F800000)),
        ("-INF", Operand("immediate", value=0xFF800000)),
        ("c[0x0][0x210]", Operand("constant", value=0x210)),
        ("-c[0x3][0x4]", Operand("constant", bank=3, value=4, negated=True)),
        ("c[0x2][R7+0x18]", Operand("constant", bank=2, base=7, value=0x18)),
        ("c[0x0][RZ]", Operand("constant")),
        ("c[0x0][UR12+0x258]", Operand("constant", uniform_base=12, value=0x258)),
        ("[R2.64+0x10]", Operand("memory", base=2, base_wide=True, value=16)),
        ("desc[UR4][R2.64+-0x8]", Operand("memory", base=2, base_wide=True, value=-8)),
        ("[R5+UR6+0x4]", Operand("memory", base=5, uniform_base=6, value=4)),
        ("[R5.X4+UR6]", Operand("memory", base=5, uniform_base=6, suffix="X4")),
        ("[UR5]", Operand("memory", uniform_base=5)),
        ("SR_TID.X", Operand("special", name="SR_TID.X")),
        ("SRZ", Operand("special", name="SRZ")),
        ("B6", Operand("barrier", 6, name="B")),
        ("SB0", Operand("barrier", 0, name="SB")),
        ("`(.L_x_3)", Operand("label", value=12, name=".L_x_3")),
        ("{5,4}", Operand("other", name="{5,4}")),
    ],
)
def test_parse_operand(text: str, expected: Operand) -> None:
    assert sass._parse_operand(text, {".L_x_3": 0xC0}) == expected


@pytest.mark.parametrize(
    "text, parts",
    [
        ("R1, c[0x0][0x28]", ["R1", "c[0x0][0x28]"]),
        ("R8 `(_Z5callsPKfPfi)", ["R8", "`(_Z5callsPKfPfi)"]),
        ("R4 -0x300", ["R4", "-0x300"]),
        ("SB0, {5,4}", ["SB0", "{5,4}"]),
        ("desc[UR4][R2.64], R5", ["desc[UR4][R2.64]", "R5"]),
    ],
)
def test_split_operands(text: str, parts: list[str]) -> None:
    assert [part for field in sass._split_operands(text) for part in sass._split_unseparated(field.strip())] == parts


@pytest.mark.parametrize("target", TARGETS)
def test_load_program_of_every_architecture(module: cuda.Module, target: str) -> None:
    program = _program(module, target)
    assert program.architecture == tuple(map(int, re.fullmatch(r"sm_(\d+)(\d)", target).groups()))
    assert program.parameter_base == TARGETS[target]
    assert program.parameters == ((0, 8), (8, 1), (16, 8), (24, 8))
    assert 132 <= program.static_shared <= 144
    assert program.reserved_shared == (1024 if target in ("sm_90", "sm_100") else 0)
    assert 8 <= program.registers <= 64
    assert program.variables["weights"].nbytes == 20 and program.variables["weights"].bank == 3
    counter = program.variables["counter"]
    assert program.device_image[counter.offset : counter.offset + 4] == b"\7\0\0\0"
    assert [each.address for each in program.instructions] == list(range(0, 16 * len(program.instructions), 16))
    assert not program.cooperative
    opcodes = {each.opcode for each in program.instructions}
    assert {"LDG", "STG", "STS", "LDS", "BAR", "EXIT"} <= opcodes
    lines = {each.line for each in program.instructions if each.opcode == "BAR"}
    assert lines == {SOURCE.split("\n").index("  __syncthreads();") + 1}


def test_scheduling_bits(module: cuda.Module) -> None:
    """The first reader of a load's register waits for the load's scoreboard."""
    program = _program(module, "sm_90")
    load = next(i for i, each in enumerate(program.instructions) if each.opcode == "LDG")
    barrier, register = (
        program.instructions[load].control.write_barrier,
        program.instructions[load].operands[0].index,
    )
    assert barrier < 6
    reader = next(
        each
        for each in program.instructions[load + 1 :]
        if any(operand.kind == "register" and operand.index == register for operand in each.operands[1:])
    )
    waited = 0
    for each in program.instructions[load + 1 : program.instructions.index(reader) + 1]:
        waited |= each.control.wait_mask
    assert waited >> barrier & 1
    assert all(0 <= each.control.stall <= 15 for each in program.instructions)


def test_source_lines_of_inlined_code(tmp_path: Path) -> None:
    header, source = tmp_path / "helper.cuh", tmp_path / "kernel.cu"
    header.write_text("__device__ inline float helper(float x) {\n  return sqrtf(x);\n}\n")
    source.write_text('#include "helper.cuh"\n__global__ void kernel(float* x) {\n  *x = helper(*x);\n}\n')
    module = cuda.load(source)
    compiled = nvrtc.compile(module, "kernel", "sm_90")
    program = machine.load_program(compiled.cubin, compiled.symbol)
    inlined = [each for each in program.instructions if Path(each.file).name == "helper.cuh"]
    assert inlined and all(each.line == 2 for each in inlined)
    assert {(Path(file).name, line) for each in inlined for file, line in each.inlined_at} == {("kernel.cu", 3)}


def test_errors_for_an_unknown_kernel_and_a_wrong_file(module: cuda.Module) -> None:
    cubin = nvrtc.compile(module, "kernel", "sm_90").cubin
    with pytest.raises(KeyError, match="no kernel 'other' in the cubin; kernels: .*kernel"):
        machine.load_program(cubin, "other")
    with pytest.raises(RuntimeError, match="cannot read the cubin"):
        machine.load_program(b"not a cubin", "kernel")


def test_missing_nvdisasm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(disassemble.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(disassemble.os, "access", lambda path, mode: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    disassemble.disassemblers.cache_clear()
    try:
        with pytest.raises(FileNotFoundError, match="pip install triton"):
            disassemble.disassemblers()
    finally:
        disassemble.disassemblers.cache_clear()
