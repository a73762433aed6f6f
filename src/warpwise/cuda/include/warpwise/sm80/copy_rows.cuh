// Rows of a matrix copied to shared memory by cp.async, while the threads compute.
#pragma once

#include <warpwise/core/point_tile.cuh>
#include <warpwise/sm80/mma.cuh>

namespace warpwise {

// cp.async of 8 bytes; writes zeros if not `valid`.
__device__ inline void cp_async8(unsigned to, const void* from, bool valid) {
  const int read = valid ? 8 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
}

// load_rows by cp.async, complete after __pipeline_commit and __pipeline_wait_prior: `rows` rows of x: (n, width) from
// row `first` on to tile: (rows, stride). A copy has 16, 8 or 4 bytes, depending on the alignment of the rows.
__device__ inline void copy_rows_async(float* tile, const float* x, long long n, int width, long long first, int rows,
                                       int stride) {
  const int quads = (width + 3) / 4;
  const int word = width % 4 == 0 && aligned(x) ? 16 : width % 2 == 0 && aligned<8>(x) ? 8 : 4;
#pragma unroll 2
  for (int i = threadIdx.x; i < rows * quads; i += blockDim.x) {
    const int row = i / quads, column = (i - row * quads) * 4;
    const int valid = first + row < n ? width - column : 0;
    const float* const from = x + (valid > 0 ? (first + row) * width + column : 0);  // valid in any case
    const unsigned to = shared_address(tile + row * stride + column);
    if (word == 16) {
      mma::cp_async<16>(to, from, valid > 0);
    } else if (word == 8) {
      cp_async8(to, from, valid > 0);
      cp_async8(to + 8, valid > 2 ? from + 2 : x, valid > 2);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) mma::cp_async<4>(to + 4 * e, valid > e ? from + e : x, valid > e);
    }
  }
}

}  // namespace warpwise
