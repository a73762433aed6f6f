// Tensor core instructions of a GEMM without its data movement: a bound for the GEMM on the same SMs.
//
// Each block loads kStages k-tiles, 128 x 64 of A and 64 x 256 of B, into shared memory once, and multiplies them as
// matmul's k12 does: two warpgroups with 64 x 256 accumulators each, one k-tile's wgmma in flight. sm_90a only.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace sm90 = warpwise::sm90;

constexpr int kStages = 4;
constexpr unsigned kBytesA = 128 * 64 * 2, kBytesB = 256 * 64 * 2;

// a, b: at least kStages k-tiles each. c: one sum for each thread, so that no wgmma is eliminated. A block computes
// `tiles` tiles of `k_tiles` k-tiles each.
template <class T>
__global__ void __launch_bounds__(256, 1) products_alone(const T* a, const T* b, float* c, int tiles, int k_tiles) {
  extern __shared__ unsigned char raw[];
  const unsigned base = (warpwise::shared_address(raw) + 1023) & ~1023u;
  int4* const ring = reinterpret_cast<int4*>(raw + (base - warpwise::shared_address(raw)));
  constexpr int kQuadsA = kStages * kBytesA / 16, kQuadsB = kStages * kBytesB / 16;
  for (int i = threadIdx.x; i < kQuadsA; i += blockDim.x) ring[i] = reinterpret_cast<const int4*>(a)[i];
  for (int i = threadIdx.x; i < kQuadsB; i += blockDim.x) ring[kQuadsA + i] = reinterpret_cast<const int4*>(b)[i];
  sm90::fence_proxy_async();
  __syncthreads();

  const unsigned own_a = base + threadIdx.x / 128 * (kBytesA / 2), all_b = base + kStages * kBytesA;
  float d[128], total = 0;
  int stage = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    for (int s = 0; s < k_tiles; ++s) {
      sm90::wgmma_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const unsigned from_a = own_a + stage * kBytesA + i * 32, from_b = all_b + stage * kBytesB + i * 16 * 128;
        sm90::wgmma<T, 256, false, true>(d, sm90::matrix_descriptor(from_a, 0, 1024),
                                         sm90::matrix_descriptor(from_b, 8192, 1024), s || i);
      }
      sm90::wgmma_commit_group();
      sm90::wgmma_wait_group<1>();
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    sm90::wgmma_wait_group<0>();
    sm90::warpgroup_fence_operand(d);
    total += d[0];
#pragma unroll
    for (int i = 1; i < 128; ++i) total += d[i];
  }
  c[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
