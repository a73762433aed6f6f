// Warpgroups: register reallocation, named barriers, and matrices between registers and shared memory. sm_90a only.
#pragma once

namespace warpwise {
namespace sm90 {

// elect.sync: true in one lane of a converged warp. The compiler then emits a branch for a single thread.
__device__ inline bool elect_one() {
  unsigned is;
  asm volatile("{\n.reg .pred is;\nelect.sync _|is, 0xffffffff;\nselp.u32 %0, 1, 0, is;\n}" : "=r"(is));
  return is;
}

// bar.sync: a barrier of `threads` threads (whole warps). Id 0 is __syncthreads().
__device__ inline void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// bar.sync 0: a barrier of the block that warps may reach at different places, unlike __syncthreads().
__device__ inline void block_sync() { asm volatile("bar.sync 0;" ::: "memory"); }

// setmaxnreg: lowers the register count of each thread of the warpgroup to REGISTERS.
template <int REGISTERS>
__device__ inline void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Raises it; waits until enough registers are free.
template <int REGISTERS>
__device__ inline void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// stmatrix: four 8 x 8 matrices of 2-byte elements to shared memory. Lane l gives the address of row l % 8 of
// matrix l / 8.
__device__ inline void stmatrix_x4(unsigned address, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

// stmatrix.trans: each matrix is transposed.
__device__ inline void stmatrix_x4_trans(unsigned address, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace sm90
}  // namespace warpwise
