// Tiles of 64 x 64 elements for rows of any alignment: a thread has 16 loads in flight; in k04 it has 4.
//
// If a row is no multiple of 16 bytes, k05 accesses single elements one after the other. Here a warp reads and writes
// 32 adjacent elements at once, and a thread starts all of its loads before it stores the first element.

#include <warpwise/core/previous_kernel.cuh>

constexpr int kTile = 64, kLanes = 32, kLines = 8;

// in: (rows, cols), out: (cols, rows). Block: (kLanes, kLines). Grid: one block per tile,
// `tiles` of a line of tiles first; the lines run down the rows, or along the columns.
template <typename T>
__global__ void __launch_bounds__(kLanes* kLines) transpose(const T* in, T* out, long long rows, long long cols,
                                                            unsigned tiles, bool down) {
  // An odd number of words per row of the tile: a column covers all 32 banks.
  constexpr int kPadding = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  __shared__ T tile[kTile][kTile + kPadding];
  const unsigned line = blockIdx.x / tiles, place = blockIdx.x - line * tiles;
  const long long row0 = static_cast<long long>(down ? place : line) * kTile;
  const long long col0 = static_cast<long long>(down ? line : place) * kTile;
  const int x = threadIdx.x, y = threadIdx.y;
  const T* from = in + (row0 + y) * cols + col0 + x;
  T* to = out + (col0 + y) * rows + row0 + x;
  const bool left_in = col0 + x < cols, right_in = col0 + x + kLanes < cols;
  const bool left_out = row0 + x < rows, right_out = row0 + x + kLanes < rows;
  warpwise::wait_for_previous_kernel();

  T left[kTile / kLines] = {}, right[kTile / kLines] = {};
#pragma unroll
  for (int i = 0; i < kTile / kLines; ++i, from += kLines * cols) {
    const bool inside = row0 + y + i * kLines < rows;
    if (inside && left_in) left[i] = from[0];
    if (inside && right_in) right[i] = from[kLanes];
  }
#pragma unroll
  for (int i = 0; i < kTile / kLines; ++i) {
    tile[y + i * kLines][x] = left[i];
    tile[y + i * kLines][x + kLanes] = right[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTile / kLines; ++i, to += kLines * rows) {
    const bool inside = col0 + y + i * kLines < cols;
    if (inside && left_out) to[0] = tile[x][y + i * kLines];
    if (inside && right_out) to[kLanes] = tile[x + kLanes][y + i * kLines];
  }
}
