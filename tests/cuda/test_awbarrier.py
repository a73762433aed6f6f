"""nvcuda::experimental: awbarrier and pipeline, the mbarrier and pipeline primitives, also in host code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.commands import command

from warpwise import cuda

SOURCE = """
#include <cuda_awbarrier.h>
#include <cuda_pipeline.h>
using namespace nvcuda::experimental;
__device__ void meet(awbarrier& barrier, int mode) {
  auto token = barrier.arrive();
  if (mode == 1) barrier.wait(token);
  if (mode == 2) while (!barrier.timed_wait(token, 1000)) {}
  if (mode == 3) while (!barrier.try_wait(token, 1000)) {}
}
__global__ void swapped(int* x, int mode, int rounds) {
  __shared__ awbarrier barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  for (int i = 0; i < rounds; i++) {
    const int value = x[(threadIdx.x + 33) % 64];
    meet(barrier, mode);
    x[threadIdx.x] = value;
    barrier.arrive_and_wait();
  }
  if (threadIdx.x < 32) barrier.arrive_and_drop();
  if (threadIdx.x >= 32) {
    barrier.arrive();
    while (!barrier.timed_wait_parity(false, 1000)) {}  // the phase has an even number
  }
}
__global__ void copied(const float2* from, float2* to, int steps, int wait) {
  __shared__ float2 tiles[2][32];
  pipeline pipe;
  const int i = threadIdx.x;
  memcpy_async(tiles[0][i], from[i], pipe);
  pipe.commit();
  for (int step = 0; step < steps; step++) {
    if (step + 1 < steps) memcpy_async(tiles[(step + 1) % 2][i], from[(step + 1) * 32 + i], pipe);
    pipe.commit();
    if (wait) pipe.wait_prior<1>();
    __syncthreads();
    to[step * 32 + i] = tiles[step % 2][31 - i];
    __syncthreads();
  }
}
__global__ void batches(const float2* from, float2* to, int later) {
  __shared__ float2 tile[32];
  pipeline pipe;
  memcpy_async(tile[threadIdx.x], from[threadIdx.x], pipe);
  const size_t batch = pipe.commit();
  pipe.wait(batch + later);
  to[threadIdx.x] = tile[threadIdx.x];
}
__global__ void padded(const float* from, float* to) {
  __shared__ float tile[32][4];
  pipeline pipe;
  memcpy_async(segment<4>(tile[threadIdx.x]), segment<2>(from + 4 * threadIdx.x), pipe);
  pipe.commit_and_wait();
  for (int i = 0; i < 4; i++) to[4 * threadIdx.x + i] = tile[threadIdx.x][i];
}
__global__ void large(const float3* from, float3* to) {
  __shared__ float3 tile[32];
  pipeline pipe;
  memcpy_async(tile[threadIdx.x], from[threadIdx.x], pipe);
  pipe.commit_and_wait();
  to[threadIdx.x] = tile[threadIdx.x];
}
__global__ void arrivals(const float* from, float* to, int on) {
  __shared__ float tile[64];
  __shared__ __mbarrier_t barrier;
  __shared__ awbarrier other;
  if (threadIdx.x == 0) __mbarrier_init(&barrier, 64);
  if (threadIdx.x == 1) init(&other, 64);
  __syncthreads();
  pipeline pipe;
  __pipeline_memcpy_async(tile + threadIdx.x, from + threadIdx.x, 4);
  if (on == 1) __pipeline_arrive_on(&barrier);
  if (on == 2) pipe.arrive_on(other);
  const __mbarrier_token_t token = __mbarrier_arrive(&barrier);
  while (!__mbarrier_test_wait(&barrier, token)) {}
  other.arrive_and_wait();
  to[threadIdx.x] = tile[63 - threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) __mbarrier_inval(&barrier);
}
"""


@pytest.fixture(scope="module")
def module() -> cuda.Module:
    return cuda.load(SOURCE)


def test_awbarrier(module: cuda.Module) -> None:
    for mode in (1, 2, 3):
        x = np.arange(64, dtype="i4")
        assert module["swapped"][1, 64].check(x, mode, 3) == []
        assert (x == (np.arange(64) + 99) % 64).all()
    found = module["swapped"][1, 64].check(np.arange(64, dtype="i4"), 0, 1)
    assert found[0].kind is cuda.DataRace


def test_pipeline(module: cuda.Module) -> None:
    x, y = np.arange(256, dtype="f4").reshape(128, 2), np.zeros((128, 2), "f4")
    assert module["copied"][1, 32].check(x, cuda.out(y), 4, 1) == []
    assert (y.reshape(4, 32, 2) == x.reshape(4, 32, 2)[:, ::-1]).all()
    found = module["copied"][1, 32].check(x, cuda.out(y), 4, 0)
    assert found[0].kind is cuda.DataRace and found[0].variable == "tiles"


def test_the_batch_of_a_wait(module: cuda.Module) -> None:
    """CUDA's header leaves the group that ``commit`` returned pending, and waits for it by the next number."""
    x, y = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    assert module["batches"][1, 32].check(x, cuda.out(y), 1) == []
    assert (y == x).all()
    assert module["batches"][1, 32].check(x, cuda.out(y), 0)[0].kind is cuda.DataRace


def test_a_copy_with_zeros_and_one_of_a_large_type(module: cuda.Module) -> None:
    x, y = np.arange(1, 129, dtype="f4").reshape(32, 4), np.zeros((32, 4), "f4")
    assert module["padded"][1, 32].check(x, cuda.out(y)) == []
    assert (y[:, :2] == x[:, :2]).all() and (y[:, 2:] == 0).all()
    z = np.zeros(96, "f4")
    found = module["large"][1, 32].check(z, cuda.out(z.copy()))
    assert found[0].kind is cuda.UndefinedBehaviour and "cuda::memcpy_async" in found[0].message


def test_copies_that_arrive_on_a_barrier(module: cuda.Module) -> None:
    x, y = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    for on in (1, 2):
        assert module["arrivals"][1, 64].check(x, cuda.out(y), on) == []
        assert (y == x[::-1]).all()
    assert module["arrivals"][1, 64].check(x, cuda.out(y), 0)[0].kind is cuda.DataRace


def test_host_code(tmp_path: Path) -> None:
    program = (
        SOURCE
        + """
static_assert(awbarrier::max() == (1 << 20) - 1 && sizeof(awbarrier) == sizeof(__mbarrier_t), "");
int main() {
  int* x;
  cudaMallocManaged(&x, 64 * sizeof *x);
  for (int i = 0; i < 64; i++) x[i] = i;
  swapped<<<1, 64>>>(x, 1, 1);
  cudaDeviceSynchronize();
  printf("%d", x[40]);
  cudaFree(x);
}
"""
    )
    (tmp_path / "program.cu").write_text(program)
    done = command("run", str(tmp_path / "program.cu"), "--device", "cpu", timeout=100)
    assert (done.returncode, done.stdout) == (0, "9"), done.stderr
