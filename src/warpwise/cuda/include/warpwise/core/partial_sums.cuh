// Reduction of partial sums of several blocks in a fixed order, so that the result is deterministic.
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/core/previous_kernel.cuh>

namespace warpwise {

// Returns true in the last of `count` blocks to call this. A block calls it after it has written its partial results,
// which are then all visible to the last block. All threads call it. `*semaphore` is 0 before the first block and after
// the last. `barrier()` synchronises the calling threads, which include thread (0, 0).
template <class Barrier>
__device__ inline bool is_last_block(int* semaphore, int count, const Barrier& barrier) {
  __shared__ bool is_last;
  __threadfence();
  barrier();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    is_last = atomicAdd(semaphore, 1) == count - 1;
    if (is_last) *semaphore = 0;
  }
  barrier();
  __threadfence();
  return is_last;
}

__device__ inline bool is_last_block(int* semaphore, int count) {
  return is_last_block(semaphore, count, [] { __syncthreads(); });
}

// Passes a float to another block of the grid without a fence: value and flag are one word of 8 bytes, which is 0
// before and after. An atomic operation whose result is not used is a reduction (RED) if there is one, which takes less
// time than an exchange: a block resets 4000 words in 0.8 us less.
__device__ inline void send_value(unsigned long long* to, float value) {
  atomicOr(to, 1ull << 32 | __float_as_uint(value));
}

// The sum of the values at first, first + step, ... below `count`, `pitch` words apart, which other blocks send; 0 for
// a thread without one. BATCH words at a time are polled until all have arrived. Volatile loads poll them, because
// several are in flight; the compiler would wait for each conditional atomic before the next. For the same reason the
// loads are unconditional: past the end they load the last word again. count * pitch is an int. The other blocks must
// run or have run: those with a lower blockIdx do.
template <int BATCH = 8>
__device__ inline float take_sum(unsigned long long* from, int count, int first, int step, int pitch) {
  volatile unsigned long long* const sent = from;
  float sum = 0.0f;
#pragma unroll 1
  for (int i = first; i - first < count; i += BATCH * step) {
    unsigned long long words[BATCH];
    bool late;
#pragma unroll 1
    do {
      late = false;
#pragma unroll
      for (int b = 0; b < BATCH; ++b) words[b] = sent[min(i + b * step, count - 1) * pitch];
#pragma unroll
      for (int b = 0; b < BATCH; ++b) late |= words[b] == 0 && i + b * step < count;
    } while (late);
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
      if (i + b * step >= count) continue;
      atomicAnd(from + (i + b * step) * pitch, 0ull);
      sum += __uint_as_float(static_cast<unsigned>(words[b]));
    }
  }
  return sum;
}

// sums: (count) = the sum over the first dimension of partials: (splits, count). A lane sums four adjacent elements,
// with one load if count is a multiple of four; a warp sums every eighth split; the sums of the warps are added in
// order. Block: 256 threads. Grid: cdiv(count, 128). `partials` is aligned to 16 bytes, `sums` to four elements.
template <class T>
__global__ void __launch_bounds__(256) reduce_partials(const float* partials, T* sums, long long count, int splits) {
  constexpr int kWarps = 8;
  __shared__ Float4 warp_sums[kWarps][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const long long first = (static_cast<long long>(blockIdx.x) * 32 + lane) * 4;
  const int valid = static_cast<int>(count - first < 4 ? count - first : 4);  // 0 or less if all are past the end
  const bool aligned = count % 4 == 0;
  Float4 sum = {};
  wait_for_previous_kernel();
#pragma unroll 4
  for (int split = warp; split < splits; split += kWarps) {
    const float* const from = partials + split * count + first;
    const Float4 values = aligned ? load4<true>(from, valid) : load4<false>(from, valid);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum.at[e] += values.at[e];
  }
  warp_sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sum.at[e] += warp_sums[w][lane].at[e];
  }
  if (aligned)
    store4<true>(sums + first, sum.at, valid);
  else
    store4<false>(sums + first, sum.at, valid);
}

}  // namespace warpwise
