// Copies of the rows of a matrix to shared memory with cp.async, while the threads compute.
#pragma once

#include <warpwise/core/point_tile.cuh>
#include <warpwise/sm80/mma.cuh>

namespace warpwise {

// cp.async of 8 bytes; writes zeros if not `valid`.
__device__ inline void cp_async8(unsigned to, const void* from, bool valid) {
  const int read = valid ? 8 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
}

// load_rows with cp.async, complete after __pipeline_commit and __pipeline_wait_prior: `rows` rows of x: (n, width)
// from row `first` on to tile: (rows, stride). A copy has 16, 8 or 4 bytes, depending on the alignment of the rows.
__device__ inline void copy_rows_async(float* tile, const float* x, long long n, int width, long long first, int rows,
                                       int stride) {
  const int quads = (width + 3) / 4;
  const int word = width % 4 == 0 && aligned(x) ? 16 : width % 2 == 0 && aligned<8>(x) ? 8 : 4;
#pragma unroll 2
  for (int i = threadIdx.x; i < rows * quads; i += blockDim.x) {
    const int row = i / quads, column = (i - row * quads) * 4;
    const int valid = first + row < n ? width - column : 0;
    const float* const from = x + (valid > 0 ? (first + row) * width + column : 0);  // a valid address in any case
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

// Copies TILE rows of x: (n, width) to a tile of one warp; only this warp waits for them. Lane l starts at the l-th
// 16-byte vector of the tile and advances by 32 vectors. Rows past `end` are zero.
template <int TILE>
struct WarpCopy {
  const float* features;
  int width, stride, row, quad, quads, step_rows, step_quads, bytes;
  unsigned long long policy;

  __device__ WarpCopy(const float* from, int columns) : features(from), width(columns) {
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    stride = tile_stride(width);
    quads = (width + 3) / 4;
    const int lane = threadIdx.x % 32;
    row = lane / quads;
    quad = lane - row * quads;
    step_rows = 32 / quads;
    step_quads = 32 - step_rows * quads;
    bytes = width % 4 == 0 && aligned(from) ? 16 : width % 2 == 0 && aligned<8>(from) ? 8 : 4;
  }

  __device__ void operator()(float* tile, int first, int end) const {
    int r = row, c = quad;
    if (bytes == 16 && end - first >= TILE) {  // one contiguous range
      const float* from = features + static_cast<long long>(first) * width + threadIdx.x % 32 * 4;
      unsigned to = shared_address(tile + r * stride + 4 * c);
      for (int i = threadIdx.x % 32; i < TILE * quads; i += 32) {
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, 16, %2;" ::"r"(to), "l"(from),
                     "l"(policy)
                     : "memory");
        from += 128;
        to += 4 * (step_rows * stride + 4 * step_quads);
        c += step_quads;
        if (c >= quads) {
          c -= quads;
          to += 4 * (stride - 4 * quads);
        }
      }
      return;
    }
    while (r < TILE) {
      const int valid = first + r < end ? width - 4 * c : 0;
      const float* const from = features + (valid > 0 ? static_cast<long long>(first + r) * width + 4 * c : 0);
      const unsigned to = shared_address(tile + r * stride + 4 * c);
      if (bytes == 16) {
        mma::cp_async<16>(to, from, valid > 0);
      } else if (bytes == 8) {
        cp_async8(to, from, valid > 0);
        cp_async8(to + 8, valid > 2 ? from + 2 : features, valid > 2);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) mma::cp_async<4>(to + 4 * e, valid > e ? from + e : features, valid > e);
      }
      r += step_rows;
      c += step_quads;
      if (c >= quads) {
        c -= quads;
        ++r;
      }
    }
  }
};

}  // namespace warpwise
