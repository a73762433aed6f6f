// An 8 x 8 tile of C per thread: 16 loads from shared memory for 64 multiply-adds, an outer product in registers.
//
// A quarter of a load per multiply-add instead of two; with eight elements of a column per thread it would be nine
// eighths. 256 threads compute a 128 x 128 tile from k-tiles of 8.

#include <warpwise/core/numeric.cuh>

constexpr int kM = 128, kN = 128, kK = 8;  // block tile of C, and the k-tile
constexpr int kThreadTile = 8;             // rows and columns of C per thread
constexpr int kThreads = (kM / kThreadTile) * (kN / kThreadTile);
static_assert(kM * kK % kThreads == 0 && kK * kN % kThreads == 0, "every thread loads the same number of elements");

// a: (m, k), b: (k, n), c: (m, n), row-major. Grid: (cdiv(n, kN), cdiv(m, kM)) blocks of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads, 2) matmul_block_tile_2d(const T* a, const T* b, T* c, int m, int n, int k) {
  __shared__ float a_tile[kM][kK];
  __shared__ float b_tile[kK][kN];
  const int thread = threadIdx.x;
  const int first_row = blockIdx.y * kM, first_column = blockIdx.x * kN;
  const int row = thread / (kN / kThreadTile) * kThreadTile,
            column = thread % (kN / kThreadTile) * kThreadTile;  // relative to the block tile

  float sums[kThreadTile][kThreadTile] = {};
  for (int first = 0; first < k; first += kK) {
    for (int i = thread; i < kM * kK; i += kThreads) {
      const int a_row = first_row + i / kK, a_column = first + i % kK;
      a_tile[i / kK][i % kK] =
          a_row < m && a_column < k ? warpwise::to_float(a[static_cast<long long>(a_row) * k + a_column]) : 0.0f;
    }
    for (int i = thread; i < kK * kN; i += kThreads) {
      const int b_row = first + i / kN, b_column = first_column + i % kN;
      b_tile[i / kN][i % kN] =
          b_row < k && b_column < n ? warpwise::to_float(b[static_cast<long long>(b_row) * n + b_column]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kK; ++i) {
      float a_values[kThreadTile], b_values[kThreadTile];
#pragma unroll
      for (int r = 0; r < kThreadTile; ++r) a_values[r] = a_tile[row + r][i];
#pragma unroll
      for (int s = 0; s < kThreadTile; ++s) b_values[s] = b_tile[i][column + s];
#pragma unroll
      for (int r = 0; r < kThreadTile; ++r) {
#pragma unroll
        for (int s = 0; s < kThreadTile; ++s) sums[r][s] += a_values[r] * b_values[s];
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < kThreadTile; ++r) {
    const long long c_row = first_row + row + r;
#pragma unroll
    for (int s = 0; s < kThreadTile; ++s) {
      const int c_column = first_column + column + s;
      if (c_row < m && c_column < n) c[c_row * n + c_column] = warpwise::from_float<T>(sums[r][s]);
    }
  }
}
