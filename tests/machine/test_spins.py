"""Loops that poll: which they are, and that one iteration of each is counted."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.launching import machine_run

from warpwise import cuda, machine
from warpwise.cuda.gpu import nvrtc

SOURCE = """
#include <cooperative_groups.h>
extern "C" __global__ void chain(volatile int* flag, float* y) {
  if (threadIdx.x == 0) {
    while (flag[blockIdx.x] == 0) {}
    y[blockIdx.x] = 1;
    __threadfence();
    flag[blockIdx.x + 1] = 1;
  }
}
extern "C" __global__ void backwards(volatile int* flag, float* y) {
  if (threadIdx.x == 0) {
    while (flag[blockIdx.x + 1] == 0) __nanosleep(20);
    y[blockIdx.x] = 1;
    __threadfence();
    flag[blockIdx.x] = 1;
  }
  __syncthreads();
  y[gridDim.x + blockIdx.x * 64 + threadIdx.x] = 2;
}
extern "C" __global__ void lock(int* lock, int* y) {
  while (atomicCAS(lock, 0, 1) != 0) {}
  *y += 1;
  atomicExch(lock, 0);
}
extern "C" __global__ void grid(const float* x, float* y, float* z, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
  cooperative_groups::this_grid().sync();
  z[i] = y[n - 1 - i];
}
extern "C" __global__ void arrival(const float* x, float* y, float* z, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  auto all = cooperative_groups::this_grid();
  unsigned token = 0;
  for (int step = 0; step < n; ++step) {
    if (step > 0) all.barrier_wait(static_cast<unsigned&&>(token));
    y[i] += x[i];
    token = all.barrier_arrive();
    z[i] += y[i];
  }
}
extern "C" __global__ void maximum(int* most, const float* x, int n) {
  for (int i = threadIdx.x; i < n; i += 32) {
    int before = *most, assumed;
    do {
      assumed = before;
      before = atomicCAS(most, assumed, __float_as_int(fmaxf(x[i], __int_as_float(assumed))));
    } while (before != assumed);
  }
}
extern "C" __global__ void queue(int* next, float* y, int n) {
  int i;
  while ((i = atomicAdd(next, 1)) < n) y[i] = i;
}
extern "C" __global__ void counts(const int* x, int* bins, int n) {
  for (int i = threadIdx.x; i < n; i += 32) x[i] < atomicAdd(bins + x[i], 1) ? bins[0] = 1 : 0;
}
"""


@pytest.fixture(scope="module")
def module() -> cuda.Module:
    return cuda.load(SOURCE)


@pytest.mark.parametrize(
    "name, loops",
    [
        ("chain", 1),
        ("backwards", 1),
        ("lock", 1),
        ("grid", 1),
        ("arrival", 1),
        ("maximum", 0),
        ("queue", 0),
        ("counts", 0),
    ],
)
def test_loops_that_only_poll_are_found(module: cuda.Module, name: str, loops: int) -> None:
    compiled = nvrtc.compile(module, module.kernels[0], "sm_90")  # the machine code of every kernel with C linkage
    program = machine.load_program(compiled.cubin, name)
    assert len(program.spins) == loops


@pytest.mark.parametrize("name, first", [("chain", 0), ("backwards", 8)])
def test_one_iteration_of_a_wait_is_counted_for_each_warp(module: cuda.Module, name: str, first: int) -> None:
    flag, y = np.zeros(9, np.int32), np.zeros(8 + 8 * 64, np.float32)
    flag[first] = 1
    counts = machine_run(module[name][8, 64], (flag, y))
    (loop,) = counts.program.spins
    assert 0 < counts.column("executed")[loop[-1]] <= 8  # the compiler may test once before the loop
    assert counts.outputs["y"].view(np.float32)[:8].tolist() == [1.0] * 8
    alone = machine_run(module[name][1, 64], (np.ones(9, np.int32), y))
    assert counts.mean_warp_cycles < 2 * alone.mean_warp_cycles
