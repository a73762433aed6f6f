// Rows of any alignment: tiles of 64 x 64 single elements, of which a thread has 16 loads in flight where k04 has 4.
//
// If a row is no multiple of 16 bytes, k05 accesses single elements through conditions. Here a warp moves 32 adjacent
// elements on both sides, and no condition separates the loads of a tile inside the matrix.

#include <warpwise/core/previous_kernel.cuh>

constexpr int kTile = 64, kLanes = 32, kLines = 8;

// in: (rows, cols), out: (cols, rows). Block: (kLanes, kLines). Grid: one block per tile, in row-major order.
template <typename T>
__global__ void __launch_bounds__(kLanes* kLines) transpose(const T* __restrict__ in, T* __restrict__ out,
                                                            long long rows, long long cols, unsigned tiles_n) {
  // An odd number of words per row of the tile: a column covers all 32 banks.
  constexpr int kPadding = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  __shared__ T tile[kTile][kTile + kPadding];
  const unsigned tile_m = blockIdx.x / tiles_n;
  const long long row0 = static_cast<long long>(tile_m) * kTile;
  const long long col0 = static_cast<long long>(blockIdx.x - tile_m * tiles_n) * kTile;
  const int x = threadIdx.x, y = threadIdx.y;
  const bool whole = row0 + kTile <= rows && col0 + kTile <= cols;
  const T* from = in + (row0 + y) * cols + col0 + x;
  T* to = out + (col0 + y) * rows + row0 + x;
  warpwise::wait_for_previous_kernel();

  if (whole) {
#pragma unroll
    for (int i = 0; i < kTile; i += kLines, from += kLines * cols) {
      tile[y + i][x] = from[0];
      tile[y + i][x + kLanes] = from[kLanes];
    }
  } else {
    const bool left = col0 + x < cols, right = col0 + x + kLanes < cols;
#pragma unroll
    for (int i = 0; i < kTile; i += kLines, from += kLines * cols) {
      const bool inside = row0 + y + i < rows;
      if (inside && left) tile[y + i][x] = from[0];
      if (inside && right) tile[y + i][x + kLanes] = from[kLanes];
    }
  }
  __syncthreads();
  if (whole) {
#pragma unroll
    for (int i = 0; i < kTile; i += kLines, to += kLines * rows) {
      to[0] = tile[x][y + i];
      to[kLanes] = tile[x + kLanes][y + i];
    }
  } else {
    const bool left = row0 + x < rows, right = row0 + x + kLanes < rows;
#pragma unroll
    for (int i = 0; i < kTile; i += kLines, to += kLines * rows) {
      const bool inside = col0 + y + i < cols;
      if (inside && left) to[0] = tile[x][y + i];
      if (inside && right) to[kLanes] = tile[x + kLanes][y + i];
    }
  }
}
