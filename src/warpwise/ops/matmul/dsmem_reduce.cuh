// Reductions of partial sums through distributed shared memory, and the transposing epilogue of C^T tiles.
#pragma once

#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/tma.cuh>

namespace sm90 = warpwise::sm90;

__device__ inline void add_float4(float* sums, unsigned address) {
  float v[4];
  warpwise::ld_shared_v4(v, address);
#pragma unroll
  for (int e = 0; e < 4; ++e) sums[e] += v[e];
}

// stmatrix.trans: transposes two 8 x 8 matrices of 2-byte elements from registers to shared memory. Lane l < 16 gives
// the address of row l % 8 of the transposed matrix l / 8.
__device__ inline void store_transposed(unsigned address, unsigned first, unsigned second) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(first), "r"(second)
               : "memory");
}

// Arrives at `*semaphore`, which is 0 before the first and after the last arrival; true for the last of `count`.
// Called by one thread of a block, after a barrier of the threads that wrote partial sums. The writes of all blocks
// are then visible.
__device__ inline bool arrive_is_last(int* semaphore, int count) {
  int arrivals;
  asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;" : "=r"(arrivals) : "l"(semaphore) : "memory");
  if (arrivals == count - 1) *semaphore = 0;
  return arrivals == count - 1;
}
