"""Races on ``__device__`` variables, ``__constant__`` memory that nothing has set, and the read-only cache."""

from __future__ import annotations

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import DataRace, OutOfBounds, UndefinedBehaviour, UninitializedRead

SOURCE = """
struct Pair { int a, b; };
struct Defaults { int a = 1, b = 2; };
__device__ int counter;
__device__ float table[64];
__device__ Pair pair;
__device__ int ready, value, lock;
__constant__ float weights[4];
__constant__ float scale = 0;
__constant__ Pair parameters[2];
__constant__ Defaults defaults;
namespace inner { __device__ int word; }
__device__ int next() { static int count; return atomicAdd(&count, 1); }

__global__ void write(int* out) { counter = threadIdx.x; }
__global__ void other_namespace(int* out) { inner::word = threadIdx.x; }
__global__ void update(int* out) { counter++; }
__global__ void elements(int* out) { table[threadIdx.x] = 1; out[threadIdx.x] = table[63 - threadIdx.x]; }
__global__ void member(int* out) {
  if (threadIdx.x == 0) pair.a = 1;
  if (threadIdx.x == 50) out[0] = pair.a;
}
__global__ void blocks(int* out) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) counter = 1;
  if (blockIdx.x == 1) out[0] = counter;
}
__global__ void flag_without_fence(int* out) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    value = 1;
    atomicExch(&ready, 1);
  } else {
    while (atomicExch(&ready, 0) == 0) {}
    __threadfence();
    out[0] = value;
  }
}
__global__ void volatile_writes(int* out) {
  if (threadIdx.x == 0) *(volatile int*)&counter = 1 + blockIdx.x;
}

__global__ void atomics(int* out) { atomicAdd(&counter, 1); __syncthreads(); out[threadIdx.x] = counter; }
__global__ void other_members(int* out) {
  if (threadIdx.x == 0) pair.a = 1;
  if (threadIdx.x == 50) pair.b = 2;
}
__global__ void barrier(int* out) {
  table[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = table[63 - threadIdx.x]; }
__global__ void flag(int* out) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    value = 1;
    __threadfence();
    atomicExch(&ready, 1);
  } else {
    while (atomicExch(&ready, 0) == 0) {}
    __threadfence();
    out[0] = value;
  }
}
__global__ void locked(int* out) {
  if (threadIdx.x) return;
  while (atomicCAS(&lock, 0, 1)) {}
  __threadfence();
  counter++;
  __threadfence();
  atomicExch(&lock, 0);
}
__global__ void tickets(int* out) { out[next() % 64] = 1; }
__global__ void readers(int* out) { out[threadIdx.x] = table[threadIdx.x] + counter + pair.a; }

__global__ void unset(int* out) { out[threadIdx.x] = weights[threadIdx.x % 4]; }
__global__ void unset_structure(int* out) { out[threadIdx.x] = parameters[threadIdx.x % 2].b; }
__global__ void initialised(int* out) { out[threadIdx.x] = scale + defaults.b; }
"""
MODULE = cuda.load(SOURCE)
RACES = ("write", "other_namespace", "update", "elements", "member", "blocks", "flag_without_fence", "volatile_writes")
OF_ONE_BLOCK = ("atomics", "barrier")
CORRECT = ("atomics", "other_members", "barrier", "flag", "locked", "tickets", "readers", "initialised")


@pytest.mark.parametrize("name", [*RACES, *CORRECT])
def test_variables_have_shadow_memory(name: str) -> None:
    kinds = []
    for order in ("forward", "reverse"):
        blocks = 1 if name in OF_ONE_BLOCK else 2
        kinds += [finding.kind for finding in MODULE[name][blocks, 64].check(np.zeros(64, "i4"), order=order)]
        if name in CORRECT:
            assert kinds == []
    assert set(kinds) == ({DataRace} if name in RACES else set())


def test_constant_memory_that_was_never_set_is_reported_at_its_first_read() -> None:
    for name, variable in {"unset": "weights", "unset_structure": "parameters"}.items():
        (finding,) = MODULE[name][1, 64].check(np.zeros(64, "i4"))
        assert (finding.kind, finding.variable) == (UninitializedRead, variable)
        assert finding.access and "__global__ void unset" in finding.access.text
    module = cuda.load(SOURCE)
    module.set_constant("weights", np.zeros(4, "f4"))
    assert module["unset"][1, 64].check(np.zeros(64, "i4")) == []


READ_ONLY = """
__global__ void read(float* x, const float* z, float* y) {
  x[threadIdx.x] = __ldg(z + threadIdx.x);
  __syncthreads();
  LOAD
}
__global__ void write(float* x) { x[threadIdx.x] = 1; }
"""


@pytest.mark.parametrize(
    "load, wrong",
    [
        ("y[threadIdx.x] = x[31 - threadIdx.x];", False),
        ("y[threadIdx.x] = __ldg(&x[31 - threadIdx.x]);", True),
        ('asm("ld.global.nc.f32 %0, [%1];" : "=f"(y[threadIdx.x]) : "l"(x + 31 - threadIdx.x));', True),
    ],
)
def test_the_read_only_cache_and_memory_that_the_kernel_writes(load: str, wrong: bool) -> None:
    module = cuda.load(READ_ONLY.replace("LOAD", load))
    x, y, z = np.zeros(32, "f4"), np.zeros(32, "f4"), np.zeros(32, "f4")
    assert not module["write"][1, 32].check(z)  # an earlier launch may write what a later one reads
    findings = module["read"][1, 32].check(x, z, cuda.out(y))
    assert [(finding.kind, finding.access.line) for finding in findings] == [(UndefinedBehaviour, 5)] * wrong
    assert all(finding.other.line == 3 for finding in findings)


def test_constants_that_are_const_beside_those_that_are_not() -> None:
    module = cuda.load("""
      struct Options { float bias; };
      __constant__ const float factors[4] = {1, 2, 3, 4};
      __constant__ Options options = {0.5f};
      extern __constant__ int shift;
      __constant__ int shift = 2;
      __constant__ float unset;
      __constant__ float table[4] = {1, 2, 3, 4};
      __global__ void k(float* out) { out[threadIdx.x] = factors[threadIdx.x] * shift + options.bias; }
      __global__ void late(float* out) { out[threadIdx.x] = unset; }
      __global__ void past(float* out, int n) { out[threadIdx.x] = *(table + threadIdx.x + n); }
    """)
    out = np.zeros(4, "f4")
    assert module["k"][1, 4].check(cuda.out(out)) == []
    assert out.tolist() == [2.5, 4.5, 6.5, 8.5]
    module.set_constant("factors", np.array([4, 3, 2, 1], "f4"))
    module["k"][1, 4](cuda.out(out))
    assert out.tolist() == [8.5, 6.5, 4.5, 2.5]
    for name, arguments, kind, variable in (
        ("late", (), UninitializedRead, "unset"),
        ("past", (1,), OutOfBounds, "table"),
    ):
        (finding,) = module[name][1, 4].check(cuda.out(out), *arguments)
        assert (finding.kind, finding.variable) == (kind, variable)
