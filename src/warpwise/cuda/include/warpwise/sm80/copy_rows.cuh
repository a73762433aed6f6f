// Rows of a matrix copied to shared memory by cp.async, while the threads compute.
#pragma once

#include <warpwise/core/point_tile.cuh>
#include <warpwise/sm80/mma.cuh>

namespace warpwise {

// The copy of load_rows, complete after __pipeline_commit and __pipeline_wait_prior: `rows` rows of x: (n, width) from
// row `first` on to tile: (rows, stride). 16 bytes a copy where rows are aligned to them, otherwise 4.
__device__ inline void copy_rows_async(float* tile, const float* x, long long n, int width, long long first, int rows,
                                       int stride) {
  const int quads = (width + 3) / 4;
  const bool vector = width % 4 == 0 && aligned(x);
#pragma unroll 2
  for (int i = threadIdx.x; i < rows * quads; i += blockDim.x) {
    const int row = i / quads, column = (i - row * quads) * 4;
    const bool inside = first + row < n;
    const float* const from = x + (inside ? (first + row) * width + column : 0);  // a valid address in any case
    const unsigned to = shared_address(tile + row * stride + column);
    if (vector) {
      mma::cp_async<16>(to, from, inside);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool valid = inside && column + e < width;
        mma::cp_async<4>(to + 4 * e, valid ? from + e : x, valid);
      }
    }
  }
}

}  // namespace warpwise
