"""Correct kernels have correct results and no findings, in every order of blocks and threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples

from warpwise import cuda
from warpwise.cuda.errors import DataRace
from warpwise.cuda.launch.kernel import Kernel

ORDERS = ("forward", "reverse", "shuffle")
KERNELS = cuda.load(
    r"""
#include <cuda_fp16.h>
__global__ void block_sum(const float* x, float* sums, int n) {
  __shared__ float s[128];
  int t = threadIdx.x;
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) v += x[i];
  s[t] = v;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = s[0];
}
__global__ void warp_sum(const float* x, float* sum, int n) {
  __shared__ float partial[32];
  int t = threadIdx.x, lane = t % 32, warp = t / 32;
  float v = t < n ? x[t] : 0;
  for (int o = 16; o; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
  if (lane == 0) partial[warp] = v;
  __syncthreads();
  if (warp == 0) {
    v = lane < blockDim.x / 32 ? partial[lane] : 0;
    for (int o = 16; o; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
    if (lane == 0) *sum = v;
  }
}
__global__ void syncwarp_sum(const int* x, int* sums) {
  __shared__ int s[64];
  int t = threadIdx.x, lane = t % 32;
  s[t] = x[t];
  __syncwarp();
  for (int half = 16; half; half /= 2) {
    int v = lane < half ? s[t + half] : 0;
    __syncwarp();
    s[t] += v;
    __syncwarp();
  }
  if (lane == 0) sums[t / 32] = s[t];
}
__global__ void inclusive_scan(const int* x, int* y, int n) {
  __shared__ int a[2][64];
  int t = threadIdx.x, in = 0;
  a[0][t] = t < n ? x[t] : 0;
  __syncthreads();
  for (int step = 1; step < 64; step *= 2) {
    a[1 - in][t] = a[in][t] + (t >= step ? a[in][t - step] : 0);
    in = 1 - in;
    __syncthreads();
  }
  if (t < n) y[t] = a[in][t];
}
__global__ void sgemm(const float* A, const float* B, float* C, int m, int n, int k) {
  __shared__ float a[8][8], b[8][8];
  int r = blockIdx.y * 8 + threadIdx.y, c = blockIdx.x * 8 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < k; t += 8) {
    a[threadIdx.y][threadIdx.x] = r < m && t + threadIdx.x < k ? A[r * k + t + threadIdx.x] : 0;
    b[threadIdx.y][threadIdx.x] = c < n && t + threadIdx.y < k ? B[(t + threadIdx.y) * n + c] : 0;
    __syncthreads();
    for (int i = 0; i < 8; i++) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
    __syncthreads();
  }
  if (r < m && c < n) C[r * n + c] = sum;
}
__global__ void transpose(const __half* x, __half* y, int rows, int columns) {
  __shared__ __half tile[16][17];
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r < rows && c < columns) tile[threadIdx.y][threadIdx.x] = x[r * columns + c];
  __syncthreads();
  r = blockIdx.y * 16 + threadIdx.x, c = blockIdx.x * 16 + threadIdx.y;
  if (r < rows && c < columns) y[c * rows + r] = tile[threadIdx.x][threadIdx.y];
}
__global__ void histogram(const unsigned char* x, unsigned* bins, int n) {
  __shared__ unsigned own[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) own[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[x[i]], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], own[i]);
}
__global__ void bytes_in_place(unsigned char* x, short* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = x[i] + 1;
  y[i] = y[i] * 2;
}
__global__ void same_value(const int* x, int* any, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    if (x[i] > 5) *any = 1;
}
__device__ unsigned arrived = 0;
__global__ void last_block_sums(const float* x, volatile float* partial, float* sum, int n) {
  __shared__ bool last;
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
  for (int o = 16; o; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = v;
    __threadfence();
    last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float total = 0;
    for (int b = 0; b < gridDim.x; b++) total += partial[b];
    *sum = total;
  }
}
__global__ void last_block_reads(int* partial, unsigned* arrived, int* sum, int fence) {
  partial[blockIdx.x] = blockIdx.x + 1;
  if (fence) __threadfence();
  if (atomicAdd(arrived, 1) == gridDim.x - 1) {
    if (fence) __threadfence();
    int total = 0;
    for (int b = 0; b < gridDim.x; b++) total += partial[b];
    *sum = total;
  }
}
__global__ void spin_on_flag(volatile int* flag, int* data, int* out) {
  if (threadIdx.x == 0) {
    while (*flag == 0) {
    }
    __threadfence();
    *out = *data;
  } else if (threadIdx.x == 40) {
    *data = 42;
    __threadfence();
    *flag = 1;
  }
}
__global__ void spin_lock(int* lock, int* count) {
  while (atomicCAS(lock, 0, 1) != 0) __nanosleep(10);
  __threadfence();
  *count = *count + 1;
  __threadfence();
  atomicExch(lock, 0);
}
__global__ void chained_blocks(volatile int* ready, volatile int* prefix, const int* x) {
  int b = blockIdx.x;
  if (threadIdx.x == 0) {
    if (b > 0) while (ready[b - 1] == 0) {}
    prefix[b] = (b > 0 ? prefix[b - 1] : 0) + x[b];
    __threadfence();
    ready[b] = 1;
  }
}
__global__ void named_barriers(const float* x, float* y) {
  __shared__ float s[128];
  int group = threadIdx.x / 64, t = threadIdx.x % 64;
  s[group * 64 + t] = x[group * 64 + t];
  __barrier_sync_count(group + 1, 64);
  y[group * 64 + t] = s[group * 64 + 63 - t];
}
// A thread writes all bytes of a word; after the barrier of the warp, two threads write one half each.
__global__ void halves_after_a_word(const short* x, short* y) {
  __shared__ __align__(4) short s[64];
  int lane = threadIdx.x;
  if (lane < 16) reinterpret_cast<int2*>(s)[lane] = reinterpret_cast<const int2*>(x)[lane];
  __syncwarp();
  short low = s[lane / 2 * 4 + lane % 2], high = s[lane / 2 * 4 + lane % 2 + 2];
  __syncwarp();
  s[lane / 2 * 4 + lane % 2] = high;
  s[lane / 2 * 4 + lane % 2 + 2] = low;
  __syncwarp();
  if (lane < 16) reinterpret_cast<int2*>(y)[lane] = reinterpret_cast<const int2*>(s)[lane];
}
__global__ void split_warps(int* y) {
  int lane = threadIdx.x % 32;
  if (lane % 3 == 0) {
    unsigned mask = __activemask();
    y[threadIdx.x] = __popc(mask);
    __syncwarp(mask);
  } else {
    unsigned mask = __match_any_sync(__activemask(), lane % 5);
    y[threadIdx.x] = __popc(mask) + 100;
  }
}
"""
)


def runs(name: str, grid: object, block: object, *args: object, **options: object) -> None:
    kernel: Kernel = KERNELS[name]
    assert [str(finding) for finding in kernel[grid, block].check(*args, **options)] == []


def random(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("order", ORDERS)
def test_reductions(order: str) -> None:
    x = random(1000)
    sums = np.zeros(3, "f4")
    runs("block_sum", 3, 128, x, cuda.out(sums), 1000, order=order)
    np.testing.assert_allclose(sums.sum(), x.sum(), rtol=1e-4)
    total = np.zeros(1, "f4")
    runs("warp_sum", 1, 256, x, cuda.out(total), 200, order=order)
    np.testing.assert_allclose(total[0], x[:200].sum(), rtol=1e-4)
    integers, per_warp = np.arange(64, dtype="i4"), np.zeros(2, "i4")
    runs("syncwarp_sum", 1, 64, integers, cuda.out(per_warp), order=order)
    assert per_warp.tolist() == [integers[:32].sum(), integers[32:].sum()]


@settings(max_examples=examples(10), deadline=None)
@given(n=st.integers(1, 64))
def test_scan_of_any_length(n: int) -> None:
    x, y = np.arange(n, dtype="i4"), np.zeros(n, "i4")
    runs("inclusive_scan", 1, 64, x, cuda.out(y), n)
    assert y.tolist() == np.cumsum(x).tolist()


@settings(max_examples=examples(10), deadline=None)
@given(m=st.integers(1, 20), n=st.integers(1, 20), k=st.integers(1, 20), order=st.sampled_from(ORDERS))
def test_tiled_sgemm_of_any_shape(m: int, n: int, k: int, order: str) -> None:
    a, b, c = random(m, k), random(k, n), np.zeros((m, n), "f4")
    runs("sgemm", (-(-n // 8), -(-m // 8)), (8, 8), a, b, cuda.out(c), m, n, k, order=order)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(16, 16), (33, 47), (1, 5)])
def test_transpose_of_half_words(shape: tuple[int, int], order: str) -> None:
    x, y = random(*shape, dtype="f2"), np.zeros(shape[::-1], "f2")
    runs("transpose", (-(-shape[1] // 16), -(-shape[0] // 16)), (16, 16), x, cuda.out(y), *shape, order=order)
    assert (y == x.T).all()


def test_histogram_by_atomics_in_shared_and_global_memory() -> None:
    x = np.random.default_rng(0).integers(0, 256, 3000).astype("u1")
    bins = np.zeros(256, "u4")
    runs("histogram", 4, 128, x, bins, 3000)
    assert (bins == np.bincount(x, minlength=256)).all()


def test_adjacent_bytes_of_one_word_do_not_race() -> None:
    x, y = np.arange(128, dtype="u1"), np.arange(128, dtype="i2")
    runs("bytes_in_place", 2, 64, x, y)
    assert x.tolist() == list(range(1, 129))
    assert y.tolist() == list(range(0, 256, 2))


def test_halves_of_a_word_do_not_race_with_each_other_after_the_word() -> None:
    x, y = np.arange(64, dtype="i2"), np.zeros(64, "i2")
    runs("halves_after_a_word", 1, 32, x, cuda.out(y))
    np.testing.assert_array_equal(y.reshape(16, 2, 2), x.reshape(16, 2, 2)[:, ::-1])


def test_threads_that_write_the_same_value_do_not_race() -> None:
    seen = np.zeros(1, "i4")
    runs("same_value", 4, 64, np.arange(64, dtype="i4"), seen, 64)
    assert seen[0] == 1


@pytest.mark.parametrize("order", ORDERS)
def test_a_fence_and_a_counter_order_blocks(order: str) -> None:
    x, partial, total = random(1000), np.zeros(8, "f4"), np.zeros(1, "f4")
    runs("last_block_sums", 8, 32, x, partial, total, 1000, order=order)
    np.testing.assert_allclose(total[0], x.sum(), rtol=1e-3)


def test_blocks_without_the_fence_race() -> None:
    for fence, kinds in ((1, set()), (0, {DataRace})):
        partial, arrived, total = np.zeros(5, "i4"), np.zeros(1, "u4"), np.zeros(1, "i4")
        findings = KERNELS["last_block_reads"][5, 1].check(partial, arrived, total, fence)
        assert {finding.kind for finding in findings} == kinds
        assert total[0] == 15


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("checks", ["all", "none"])
def test_threads_that_poll(checks: str, order: str) -> None:
    flag, data, out = np.zeros(1, "i4"), np.zeros(1, "i4"), np.zeros(1, "i4")
    runs("spin_on_flag", 1, 64, flag, data, out, checks=checks, order=order)
    assert out[0] == 42
    lock, count = np.zeros(1, "i4"), np.zeros(1, "i4")
    runs("spin_lock", 3, 64, lock, count, checks=checks, order=order)
    assert count[0] == 192


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_that_wait_for_blocks(order: str) -> None:
    ready, prefix, x = np.zeros(6, "i4"), np.zeros(6, "i4"), np.arange(1, 7, dtype="i4")
    runs("chained_blocks", 6, 32, ready, prefix, x, order=order)
    assert prefix.tolist() == np.cumsum(x).tolist()


def test_named_barriers_of_half_a_block() -> None:
    x, y = random(128), np.zeros(128, "f4")
    runs("named_barriers", 1, 128, x, cuda.out(y))
    assert (y == x.reshape(2, 64)[:, ::-1].ravel()).all()


@pytest.mark.parametrize("order", ORDERS)
def test_lanes_that_converge(order: str) -> None:
    y = np.zeros(32, "i4")
    runs("split_warps", 1, 32, cuda.out(y), order=order)
    others = [lane for lane in range(32) if lane % 3]
    expected = [11 if lane % 3 == 0 else 100 + sum(each % 5 == lane % 5 for each in others) for lane in range(32)]
    assert y.tolist() == expected
