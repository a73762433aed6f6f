"""Findings in an included header name the header."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpwise import cuda
from warpwise.cuda.emulator import findings

HEADER = """
#include <cassert>
__device__ void need(int x) {
  assert(x < 8);
}
__device__ void meet() {
  if (threadIdx.x < 8)
    __syncthreads();
}
__device__ int next(int x) {
  return __shfl_sync(0xffffffff, x, 40, 7);
}
__device__ void count(int* x) {
  asm volatile("red.global.add.s32 [%0], 1;" ::"l"(x));
  atomicAdd_block(x + 1, 1);
}
__device__ int over(int x) {
  return 1 << x;
}
"""
IN_HEADER = {
    "need": ("need(x[threadIdx.x]);", cuda.KernelAssertion, 4),
    "barrier": ("meet();", cuda.BarrierDivergence, 8),
    "warp operation": ("x[0] = next(1);", cuda.UndefinedBehaviour, 11),
    "shift": ("x[threadIdx.x] = over(x[threadIdx.x] + 32);", cuda.UndefinedBehaviour, 18),
    "atomic": ("count(x); x[1] = 2;", cuda.DataRace, 15),
}


@pytest.mark.parametrize("name", IN_HEADER)
def test_a_finding_in_a_header_names_the_header(name: str, tmp_path: Path) -> None:
    statement, kind, line = IN_HEADER[name]
    (tmp_path / "h.cuh").write_text(HEADER)
    (tmp_path / "k.cu").write_text(f'#include "h.cuh"\n__global__ void k(int* x) {{\n  {statement}\n}}\n')
    found = cuda.load(tmp_path / "k.cu")["k"][2, 32].check(torch.arange(32, dtype=torch.int32))
    sides = [
        (side.file, side.line) for each in found if each.kind is kind for side in (each.access, each.other) if side
    ]
    assert (str(tmp_path / "h.cuh"), line) in sides, sides


def test_two_headers_whose_names_have_the_same_hash(tmp_path: Path) -> None:
    by_hash: dict[int, str] = {}
    for number in range(9000):  # more than there are hashes
        path = str(tmp_path / f"{number}.cuh")
        first = by_hash.setdefault(findings._file_hash(path), path)
        if first != path:
            break
    short, long = sorted((first, path))
    Path(short).write_text("struct Short { int x; };\n")
    Path(long).write_text("struct Long { int x; };\n__device__ int over(int x) {\n  return 1 << x;\n}\n")
    text = f'#include "{short}"\n#include "{long}"\n__global__ void k(int* x, Short s, Long l) {{ x[0] = over(32); }}\n'
    (tmp_path / "k.cu").write_text(text)
    found = cuda.load(tmp_path / "k.cu")["k"][1, 1].check(torch.zeros(1, dtype=torch.int32), bytes(4), bytes(4))
    assert found[0].access is not None
    assert (found[0].access.file, found[0].access.line) == (long, 3)


def test_the_other_side_of_a_race_names_one_of_many_headers(tmp_path: Path) -> None:
    count, culprit = 40, 17
    for number in range(count):
        text = f"__device__ void add{number}(int* x) {{\n  atomicAdd(x, 1);\n}}\n"
        (tmp_path / f"h{number}.cuh").write_text(text)
    includes = "".join(f'#include "h{number}.cuh"\n' for number in range(count))
    calls = "".join(f"  add{number}(x + {number + 1});\n" for number in range(count))
    racing = f"  if (threadIdx.x == 0) add{culprit}(x);\n  if (threadIdx.x == 33) x[0] = 2;\n"
    (tmp_path / "k.cu").write_text(f"{includes}__global__ void k(int* x) {{\n{calls}{racing}}}\n")
    found = cuda.load(tmp_path / "k.cu")["k"][1, 64].check(torch.zeros(count + 1, dtype=torch.int32))
    assert [each.kind for each in found] == [cuda.DataRace]
    assert found[0].other is not None
    assert (found[0].other.file, found[0].other.line) == (str(tmp_path / f"h{culprit}.cuh"), 2)


def test_the_other_side_of_a_race_in_a_long_file(tmp_path: Path) -> None:
    lines = 20_000
    text = "\n" * (lines - 1) + "__global__ void k(int* x) { if (threadIdx.x == 0) atomicAdd(x, 1);\n"
    (tmp_path / "k.cu").write_text(f"{text}  if (threadIdx.x == 33) x[0] = 2;\n}}\n")
    found = cuda.load(tmp_path / "k.cu")["k"][1, 64].check(torch.zeros(1, dtype=torch.int32))
    assert found[0].access is not None and found[0].other is not None
    assert (found[0].access.line, found[0].other.line) == (lines + 1, lines)
