// An 8 x 8 tile of C a thread: 16 loads from shared memory feed 64 multiply-adds, an outer product in registers.
//
// A quarter of a load for each multiply-add instead of nine eighths. 256 threads make a 128 x 128 tile from 8-deep
// slices.

#include <warpwise/core/numeric.cuh>

constexpr int kM = 128, kN = 128, kK = 8;  // the block's tile of C, and the depth of a slice
constexpr int kSide = 8;                   // of the tile of C that a thread makes
constexpr int kThreads = (kM / kSide) * (kN / kSide);
static_assert(kM * kK % kThreads == 0 && kK * kN % kThreads == 0, "threads share the loads of a slice evenly");

// a: (m, k), b: (k, n), c: (m, n), row-major. Grid: (cdiv(n, kN), cdiv(m, kM)) blocks of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads, 2) matmul_block_tile_2d(const T* a, const T* b, T* c, int m, int n, int k) {
  __shared__ float a_tile[kM][kK];
  __shared__ float b_tile[kK][kN];
  const int thread = threadIdx.x;
  const int first_row = blockIdx.y * kM, first_column = blockIdx.x * kN;
  const int row = thread / (kN / kSide) * kSide, column = thread % (kN / kSide) * kSide;  // in the tile

  float sums[kSide][kSide] = {};
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
      float a_values[kSide], b_values[kSide];
#pragma unroll
      for (int r = 0; r < kSide; ++r) a_values[r] = a_tile[row + r][i];
#pragma unroll
      for (int s = 0; s < kSide; ++s) b_values[s] = b_tile[i][column + s];
#pragma unroll
      for (int r = 0; r < kSide; ++r) {
#pragma unroll
        for (int s = 0; s < kSide; ++s) sums[r][s] += a_values[r] * b_values[s];
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    const long long c_row = first_row + row + r;
#pragma unroll
    for (int s = 0; s < kSide; ++s) {
      const int c_column = first_column + column + s;
      if (c_row < m && c_column < n) c[c_row * n + c_column] = warpwise::from_float<T>(sums[r][s]);
    }
  }
}
