// Eight elements of a column of C a thread: an element of B, once in a register, serves eight multiply-adds.
//
// Nine loads from shared memory for eight multiply-adds instead of sixteen. 512 threads make a 64 x 64 tile from 8-deep
// slices.

#include <warpwise/core/numeric.cuh>

constexpr int kM = 64, kN = 64, kK = 8;  // the block's tile of C, and the depth of a slice
constexpr int kRows = 8;                 // of C a thread
constexpr int kThreads = kM / kRows * kN;
static_assert(kM * kK == kThreads && kK * kN == kThreads, "each thread loads one element of each slice");

// a: (m, k), b: (k, n), c: (m, n), row-major. Grid: (cdiv(n, kN), cdiv(m, kM)) blocks of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads) matmul_block_tile_1d(const T* a, const T* b, T* c, int m, int n, int k) {
  __shared__ float a_tile[kM][kK];
  __shared__ float b_tile[kK][kN];
  const int thread = threadIdx.x;
  const int first_row = blockIdx.y * kM, first_column = blockIdx.x * kN;
  const int column = thread % kN, row = thread / kN * kRows;  // of this thread's elements, in the tile

  float sums[kRows] = {};
  for (int first = 0; first < k; first += kK) {
    const int a_row = first_row + thread / kK, a_column = first + thread % kK;
    const int b_row = first + thread / kN, b_column = first_column + thread % kN;
    a_tile[thread / kK][thread % kK] =
        a_row < m && a_column < k ? warpwise::to_float(a[static_cast<long long>(a_row) * k + a_column]) : 0.0f;
    b_tile[thread / kN][thread % kN] =
        b_row < k && b_column < n ? warpwise::to_float(b[static_cast<long long>(b_row) * n + b_column]) : 0.0f;
    __syncthreads();
    for (int i = 0; i < kK; ++i) {
      const float b_value = b_tile[i][column];
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[r] += a_tile[row + r][i] * b_value;
    }
    __syncthreads();
  }

  if (first_column + column >= n) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const long long c_row = first_row + row + r;
    if (c_row < m) c[c_row * n + first_column + column] = warpwise::from_float<T>(sums[r]);
  }
}
