// Sums that blocks of a cluster hand each other from register to register's place, and the end of a tile of C^T.
#pragma once

#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/tma.cuh>

namespace sm90 = warpwise::sm90;

__device__ inline void add_quad(float* sums, unsigned address) {
  float v[4];
  warpwise::ld_shared_v4(v, address);
#pragma unroll
  for (int e = 0; e < 4; ++e) sums[e] += v[e];
}

// Two 8 x 8 matrices of 2-byte elements, turned, from registers to shared memory; lane l < 16 gives the address of what
// is column l % 8 of matrix l / 8 before and a row after.
__device__ inline void store_turned(unsigned address, unsigned first, unsigned second) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(first), "r"(second)
               : "memory");
}

// For one thread of a block, after a barrier of those that wrote: whether it is the last of `count` to come to this
// ticket, which is 0 before the first and after the last. Then all of the block sees, in L2, what all blocks wrote.
__device__ inline bool takes_last(int* ticket, int count) {
  int before;
  asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;" : "=r"(before) : "l"(ticket) : "memory");
  if (before == count - 1) *ticket = 0;
  return before == count - 1;
}
