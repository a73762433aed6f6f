// Reduction of partial sums of several blocks in a fixed order, so that the result is deterministic.
#pragma once

#include <warpwise/core/float4.cuh>

namespace warpwise {

// True in the last of `count` blocks that call this after they have written their partial results, which are then all
// visible. All threads call it. `*ticket` is 0 before the first block and after the last. `wait` is a barrier of the
// calling threads, which include thread (0, 0).
template <class Wait>
__device__ inline bool is_last_block(int* ticket, int count, const Wait& wait) {
  __shared__ bool is_last;
  __threadfence();
  wait();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    is_last = atomicAdd(ticket, 1) == count - 1;
    if (is_last) *ticket = 0;
  }
  wait();
  __threadfence();
  return is_last;
}

__device__ inline bool is_last_block(int* ticket, int count) {
  return is_last_block(ticket, count, [] { __syncthreads(); });
}

// Sums over the first dimension of `room`: (THREADS / ROWS, ROWS), whose element `thread` is `value`. Thread r < ROWS
// returns the sum of row r; other threads return 0.
template <int ROWS, int THREADS>
__device__ inline float reduce_rows(float* room, int thread, float value) {
  static_assert(THREADS % ROWS == 0, "whole rounds");
  __syncthreads();  // earlier reads of `room` are complete
  room[thread] = value;
  __syncthreads();
  float total = 0.0f;
  if (thread < ROWS) {
#pragma unroll 8
    for (int i = thread; i < THREADS; i += ROWS) total += room[i];
  }
  return total;
}

// The same for parts: (count_of_parts, m), rows first + r, written by other blocks; the order is fixed. `room`: THREADS
// floats.
template <int ROWS, int THREADS>
__device__ inline float reduce_partial_rows(const float* parts, long long m, long long first, int count_of_parts,
                                            float* room, int thread) {
  const long long row = first + thread % ROWS;
  float sum = 0.0f;
  if (row < m) {
#pragma unroll 8
    for (int part = thread / ROWS; part < count_of_parts; part += THREADS / ROWS) sum += __ldcg(parts + part * m + row);
  }
  return reduce_rows<ROWS, THREADS>(room, thread, sum);
}

// sums: (count) = the sum over the first dimension of parts: (count_of_parts, count). A lane sums four adjacent
// elements, with one load if count is a multiple of four; a warp sums every eighth part; the warps' sums are added in
// order. Block: 256 threads. Grid: cdiv(count, 128). `parts` is aligned to 16 bytes, `sums` to four elements.
template <class T>
__global__ void __launch_bounds__(256) reduce_partials(const float* parts, T* sums, long long count,
                                                       int count_of_parts) {
  constexpr int kWarps = 8;
  __shared__ Float4 of_warp[kWarps][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const long long first = (static_cast<long long>(blockIdx.x) * 32 + lane) * 4;
  const int left = static_cast<int>(count - first < 4 ? count - first : 4);  // 0 or less if all are past the end
  const bool whole = count % 4 == 0;
  Float4 sum = {};
#pragma unroll 4
  for (int part = warp; part < count_of_parts; part += kWarps) {
    const float* const from = parts + part * count + first;
    const Float4 more = whole ? load4<true>(from, left) : load4<false>(from, left);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum.at[e] += more.at[e];
  }
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp > 0) return;
#pragma unroll
  for (int other = 1; other < kWarps; ++other) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sum.at[e] += of_warp[other][lane].at[e];
  }
  if (whole)
    store4<true>(sums + first, sum.at, left);
  else
    store4<false>(sums + first, sum.at, left);
}

}  // namespace warpwise
