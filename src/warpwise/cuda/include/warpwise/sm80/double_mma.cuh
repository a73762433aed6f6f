// Products of float64 by tensor cores.
#pragma once

namespace warpwise {

// c += a b of 8 x 4 and 4 x 8 matrices, by a whole warp. Lane 4 g + q has a[g][q], b[q][g], and c[g][2 q] and
// c[g][2 q + 1]. GPUs before sm_80, which have no such instruction, exchange the elements between lanes.
__device__ inline void multiply_add(double (&c)[2], double a, double b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const double row = __shfl_sync(0xffffffffu, a, lane / 4 * 4 + k);
#pragma unroll
    for (int e = 0; e < 2; ++e) c[e] += row * __shfl_sync(0xffffffffu, b, 4 * (2 * (lane % 4) + e) + k);
  }
#else
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(c[0]), "+d"(c[1])
               : "d"(a), "d"(b));
#endif
}

}  // namespace warpwise
