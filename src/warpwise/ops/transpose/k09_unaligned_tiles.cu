// Tiles of up to ROWS x COLS elements, for rows of any length: a thread has 8 to 32 loads in flight, in k04 it has 4.
//
// k05 moves packs of 16 bytes. If a row is not a whole number of packs, k05 accesses single elements, one after the
// other. Here a warp reads 32 adjacent elements of a row and writes 32 adjacent elements of a row of the output. A
// thread starts all of its loads before its first store to shared memory.

#include <warpwise/core/previous_kernel.cuh>

constexpr int kLanes = 32, kLines = 8;

// in: (rows, cols), out: (cols, rows). Block: (kLanes, kLines). Grid: one block per tile of `height` x `width`. Each
// `tiles` consecutive blocks have the tiles of one column of tiles if `down`, else those of one row of tiles.
template <typename T, int ROWS, int COLS>
__global__ void __launch_bounds__(kLanes* kLines) transpose(const T* in, T* out, long long rows, long long cols,
                                                            int height, int width, unsigned tiles, bool down) {
  // An odd number of words per row of the tile: a column covers all 32 banks.
  constexpr int kPadding = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  __shared__ T tile[ROWS][COLS + kPadding];
  const unsigned line = blockIdx.x / tiles, place = blockIdx.x - line * tiles;
  const long long row0 = static_cast<long long>(down ? place : line) * height;
  const long long col0 = static_cast<long long>(down ? line : place) * width;
  const int high = static_cast<int>(min(static_cast<long long>(height), rows - row0));
  const int wide = static_cast<int>(min(static_cast<long long>(width), cols - col0));
  const int x = threadIdx.x, y = threadIdx.y;
  const T* from = in + (row0 + y) * cols + col0 + x;
  T* to = out + (col0 + y) * rows + row0 + x;
  warpwise::wait_for_previous_kernel();

  T values[ROWS / kLines][COLS / kLanes] = {};
#pragma unroll
  for (int i = 0; i < ROWS / kLines; ++i, from += kLines * cols) {
    const bool inside = y + i * kLines < high;
#pragma unroll
    for (int c = 0; c < COLS / kLanes; ++c) {
      if (inside && x + c * kLanes < wide) values[i][c] = from[c * kLanes];
    }
  }
#pragma unroll
  for (int i = 0; i < ROWS / kLines; ++i) {
#pragma unroll
    for (int c = 0; c < COLS / kLanes; ++c) tile[y + i * kLines][x + c * kLanes] = values[i][c];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < COLS / kLines; ++i, to += kLines * rows) {
    const bool inside = y + i * kLines < wide;
#pragma unroll
    for (int r = 0; r < ROWS / kLanes; ++r) {
      if (inside && x + r * kLanes < high) to[r * kLanes] = tile[x + r * kLanes][y + i * kLines];
    }
  }
}
