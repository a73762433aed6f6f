// Partial sums of a divided reduction, added in their order, so that the result is the same in each run.
#pragma once

#include <warpwise/tile.cuh>

namespace warpwise {

// sums = the sum over the first dimension of parts: (count_of_parts, count). Four neighbours a thread, one load each
// where count is a multiple of four. Grid: cdiv(count, 4 blockDim.x) blocks. `parts` lies on 16 bytes, `sums` on four
// elements.
template <class T>
__global__ void __launch_bounds__(256) sum_of_parts(const float* parts, T* sums, long long count, int count_of_parts) {
  const long long first = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (first >= count) return;
  const int left = static_cast<int>(count - first < 4 ? count - first : 4);
  const bool whole = count % 4 == 0;
  Float4 sum = {};
#pragma unroll 4
  for (int part = 0; part < count_of_parts; ++part) {
    const float* const from = parts + part * count + first;
    const Float4 more = whole ? load4<true>(from, left) : load4<false>(from, left);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum.at[e] += more.at[e];
  }
  if (whole)
    store4<true>(sums + first, sum.at, left);
  else
    store4<false>(sums + first, sum.at, left);
}

}  // namespace warpwise
