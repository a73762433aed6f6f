"""libcu++ and cooperative groups: semaphores, latches, cuda::std, <nv/target>, and the compiler's atomic functions."""

from __future__ import annotations

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import DataRace, UndefinedBehaviour

LOCK = """#include <cuda/semaphore>
__device__ cuda::binary_semaphore<cuda::thread_scope_SCOPE> lock{1};
__global__ void k(int* x) {
  if (threadIdx.x % 32) return;
  lock.acquire();
  *x += 1;
  lock.release();
}
"""


def test_a_semaphore_is_a_lock_of_its_scope() -> None:
    x = np.zeros(1, "i4")
    assert cuda.load(LOCK.replace("SCOPE", "device"))["k"][3, 64].check(x) == []
    assert x[0] == 6
    found = cuda.load(LOCK.replace("SCOPE", "block"))["k"][3, 64].check(np.zeros(1, "i4"))
    assert found and all(each.kind is DataRace and "scope block" in str(each) for each in found)


SEMAPHORE = """#include <cuda/std/semaphore>
__global__ void k(int* x, int more) {
  __shared__ alignas(8) char bytes[sizeof(cuda::std::counting_semaphore<4>)];
  auto* permits = reinterpret_cast<cuda::std::counting_semaphore<4>*>(bytes);
  if (threadIdx.x == 0) new (permits) cuda::std::counting_semaphore<4>(3);
  __syncthreads();
  x[threadIdx.x] = permits->try_acquire();
  __syncthreads();
  if (threadIdx.x == 0) permits->release(more);
}
"""


def test_a_semaphore_counts_permits() -> None:
    kernel = cuda.load(SEMAPHORE)["k"]
    x = np.zeros(8, "i4")
    assert kernel[1, 8].check(x, 4) == []
    assert x.sum() == 3
    (found,) = kernel[1, 8].check(x, 5)
    assert found.kind is UndefinedBehaviour and "exceeds max()" in str(found)


LATCH = """#include <cuda/latch>
__global__ void k(int* x, int* y) {
  __shared__ alignas(8) char bytes[sizeof(cuda::latch<cuda::thread_scope_block>)];
  auto* latch = reinterpret_cast<cuda::latch<cuda::thread_scope_block>*>(bytes);
  if (threadIdx.x == 0) new (latch) cuda::latch<cuda::thread_scope_block>(64);
  __syncthreads();
  if (threadIdx.x < 64) {
    x[threadIdx.x] = threadIdx.x;
    latch->count_down();
  } else {
    WAIT;
    y[threadIdx.x - 64] = x[127 - threadIdx.x];
  }
}
"""


def test_a_latch_orders_what_precedes_the_count() -> None:
    x, y = np.zeros(64, "i4"), np.zeros(64, "i4")
    assert cuda.load(LATCH.replace("WAIT", "latch->wait()"))["k"][1, 128].check(x, y) == []
    assert (y == np.arange(64)[::-1]).all()
    found = cuda.load(LATCH.replace("WAIT", "latch->try_wait()"))["k"][1, 128].check(x, y)
    assert found and all(each.kind is DataRace for each in found)


def test_atomics_of_cuda_std() -> None:
    kernel = cuda.load("""#include <cuda/std/atomic>
__global__ void k(cuda::std::atomic<int>* x, int* y) {
  x->fetch_add(1, cuda::std::memory_order_relaxed);
  cuda::std::atomic_ref<int>(*y).fetch_max(threadIdx.x);
  cuda::std::atomic_thread_fence(cuda::std::memory_order_seq_cst);
}
""")["k"]
    x, y = np.zeros(1, "i4"), np.zeros(1, "i4")
    assert kernel[2, 64].check(x.view("u1"), y) == []
    assert x[0] == 128 and y[0] == 63


def test_bits_and_spans() -> None:
    kernel = cuda.load("""#include <cuda/std/bit>
#include <cuda/std/span>
__device__ int total(cuda::std::span<const int> values) {
  int sum = 0;
  for (const int value : values) sum += value;
  return sum;
}
__global__ void k(const unsigned* x, int* y, int n) {
  const unsigned v = x[threadIdx.x];
  y += 8 * threadIdx.x;
  y[0] = cuda::std::popcount(v);
  y[1] = cuda::std::countl_zero(v);
  y[2] = cuda::std::countr_zero(v);
  y[3] = cuda::std::bit_width(v);
  y[4] = cuda::std::bit_ceil(v & 0xffffu);
  y[5] = cuda::std::bit_cast<int>(cuda::std::bit_cast<float>(v));
  y[6] = cuda::std::rotl(v, 5) == cuda::std::rotr(v, 27);
  const int own[3] = {1, 2, 3};
  y[7] = total(own) + total(cuda::std::span<const int>(reinterpret_cast<const int*>(x), n).first(2));
}
""")["k"]
    x = np.array([0, 1, 6, 0x80000000, 0xFFFF, 0x12345678], "u4")
    y = np.zeros((6, 8), "i4")
    assert kernel[1, 6].check(x, y, 6) == []
    values = [int(v) for v in x]
    assert y[:, 0].tolist() == [v.bit_count() for v in values]
    assert y[:, 1].tolist() == [32 - v.bit_length() for v in values]
    assert y[:, 2].tolist() == [(v & -v).bit_length() - 1 if v else 32 for v in values]
    assert y[:, 3].tolist() == [v.bit_length() for v in values]
    assert y[:, 4].tolist() == [1 << max((v & 0xFFFF) - 1, 0).bit_length() for v in values]
    assert (y[:, 5].view("u4") == x).all() and (y[:, 6] == 1).all() and (y[:, 7] == 7).all()


def test_code_for_a_target() -> None:
    kernel = cuda.load("""#include <nv/target>
__global__ void k(int* y) {
  NV_IF_TARGET(NV_PROVIDES_SM_70, (y[0] = 1, y[1] = 2;), (y[0] = 0;))
  NV_IF_ELSE_TARGET(NV_IS_HOST, (y[2] = 0;), (y[2] = 3;))
  NV_DISPATCH_TARGET(NV_IS_EXACTLY_SM_80, (y[3] = 80;), NV_PROVIDES_SM_90, (y[3] = 90;), NV_IS_DEVICE, (y[3] = 1;))
}
""")["k"]
    y = np.zeros(4, "i4")
    assert kernel[1, 1].check(y) == []
    assert y.tolist() == [1, 2, 3, 90]


BUILT_IN = """
__global__ void k(int* data, int* flag) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __nv_atomic_store_n(flag, 1, RELEASE, SCOPE);
  } else {
    while (__nv_atomic_load_n(flag, __NV_ATOMIC_ACQUIRE, SCOPE) == 0) {}
    data[1] = data[0];
  }
}
"""


@pytest.mark.parametrize(
    "release, scope, missing",
    [
        ("__NV_ATOMIC_RELEASE", "__NV_THREAD_SCOPE_DEVICE", ""),
        ("__NV_ATOMIC_RELAXED", "__NV_THREAD_SCOPE_DEVICE", "no fence (release)"),
        ("__NV_ATOMIC_RELEASE", "__NV_THREAD_SCOPE_BLOCK", "scope block"),
    ],
)
def test_orders_and_scopes_of_built_in_atomics(release: str, scope: str, missing: str) -> None:
    kernel = cuda.load(BUILT_IN.replace("RELEASE", release, 1).replace("SCOPE", scope))["k"]
    data = np.zeros(2, "i4")
    found = kernel[2, 32].check(data, np.zeros(1, "i4"))
    assert bool(found) == bool(missing) and all(missing in str(each) for each in found)
    assert data[1] == 1


def test_results_of_built_in_atomics() -> None:
    kernel = cuda.load("""__global__ void k(unsigned* x, unsigned long long* y, float* z) {
  const unsigned t = threadIdx.x;
  x[8 + t] = __nv_atomic_fetch_add(x, 1u, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
  __nv_atomic_sub(x + 1, 1u, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_BLOCK);
  __nv_atomic_or(x + 2, 1u << t, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_SYSTEM);
  __nv_atomic_max(y, 7ull * t, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
  __nv_atomic_add(z, 0.5f, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
  unsigned expected = 3;
  if (t == 5 && __nv_atomic_compare_exchange_n(x + 3, &expected, t, false, __NV_ATOMIC_SEQ_CST, __NV_ATOMIC_RELAXED,
                                               __NV_THREAD_SCOPE_DEVICE))
    x[4] = expected;
  __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_DEVICE);
}
""")["k"]
    x, y, z = np.zeros(40, "u4"), np.zeros(1, "u8"), np.zeros(1, "f4")
    x[1], x[3] = 100, 3
    assert kernel[1, 32].check(x, y, z) == []
    assert x[:5].tolist() == [32, 68, 0xFFFFFFFF, 5, 3] and sorted(x[8:]) == list(range(32))
    assert y[0] == 217 and z[0] == 16


def test_groups_update_atomics() -> None:
    kernel = cuda.load("""#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;
__global__ void k(cuda::atomic<int>* x, int* y) {
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<16>(block);
  cg::reduce_update_async(tile, x[0], static_cast<int>(block.thread_rank()), cg::plus<int>());
  cuda::atomic_ref<int, cuda::thread_scope_device> largest(y[64]);
  cg::reduce_update_async(tile, largest, static_cast<int>(block.thread_rank()), cg::greater<int>());
  y[block.thread_rank()] = cg::exclusive_scan_update(tile, x[1], 2);
  y[32 + block.thread_rank()] = cg::inclusive_scan_update(tile, x[2], 2, cg::plus<int>());
  auto token = block.barrier_arrive();
  block.barrier_wait(std::move(token));
  if (cg::this_thread().size() != 1) y[65] = 1;
}
""")["k"]
    x, y = np.zeros(3, "i4"), np.zeros(66, "i4")
    x[1] = 5
    assert kernel[1, 32].check(x.view("u1"), y) == []
    assert x.tolist() == [496, 69, 64] and y[64:].tolist() == [31, 0]
    assert sorted(y[:32]) == [5 + 2 * i for i in range(32)] and sorted(y[32:64]) == [2 + 2 * i for i in range(32)]


def test_positions_in_a_cluster() -> None:
    kernel = cuda.load("""#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(2, 1, 1) k(int* y) {
  const auto cluster = cg::this_cluster();
  const auto grid = cg::this_grid();
  auto token = cluster.barrier_arrive();
  cluster.barrier_wait(std::move(token));
  const int at = static_cast<int>(grid.thread_rank());
  y[at] = 1000 * cluster.dim_threads().x + 100 * grid.num_clusters() + 10 * grid.cluster_rank();
  y[at] += static_cast<int>(cluster.thread_index().x) - static_cast<int>(cluster.thread_rank());
}
""")["k"]
    y = np.zeros(16, "i4")
    assert kernel[4, 4].check(y) == []
    assert y.tolist() == [8200] * 8 + [8210] * 8
