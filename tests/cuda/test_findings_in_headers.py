"""Findings in an included header name the header."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpwise import cuda

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
