// 16-byte accesses to global and shared memory; the k-tile of A is stored transposed to allow them.
//
// With A's k-tile stored as (k, rows) the 8 values of A that a thread needs are adjacent, like those of B: two LDS.128
// per operand for 64 multiply-adds, without relying on the compiler to merge loads of an unrolled loop. Two LDG.128
// and five stores per k-tile replace eight LDG.32 and eight stores.

#include <warpwise/core/float4.cuh>

constexpr int kM = 128, kN = 128, kK = 8;  // block tile of C, and the k-tile
constexpr int kThreadTile = 8;             // rows and columns of C per thread
constexpr int kThreads = (kM / kThreadTile) * (kN / kThreadTile);
static_assert(kM * kK == 4 * kThreads && kK * kN == 4 * kThreads,
              "each thread loads four elements of each operand's k-tile");

// a: (m, k), b: (k, n), c: (m, n), row-major. ALIGNED: k and n are multiples of 4, and a, b, c are aligned to 4
// elements. Grid: (cdiv(n, kN), cdiv(m, kM)) blocks of kThreads.
template <class T, bool ALIGNED>
__global__ void __launch_bounds__(kThreads, 2) matmul_vectorised(const T* a, const T* b, T* c, int m, int n, int k) {
  __shared__ warpwise::Float4 a_tile[kK][kM / 4];
  __shared__ warpwise::Float4 b_tile[kK][kN / 4];
  const int thread = threadIdx.x;
  const int first_row = blockIdx.y * kM, first_column = blockIdx.x * kN;
  const int row = thread / (kN / kThreadTile) * kThreadTile,
            column = thread % (kN / kThreadTile) * kThreadTile;  // relative to the block tile

  const int a_row = thread / (kK / 4), a_column = thread % (kK / 4) * 4;  // of the elements that this thread loads
  const int b_row = thread / (kN / 4), b_column = thread % (kN / 4) * 4;

  float sums[kThreadTile][kThreadTile] = {};
  for (int first = 0; first < k; first += kK) {
    const T* a_from = a + static_cast<long long>(first_row + a_row) * k + first + a_column;
    const T* b_from = b + static_cast<long long>(first + b_row) * n + first_column + b_column;
    const auto a_values = warpwise::load4<ALIGNED>(a_from, first_row + a_row < m ? k - first - a_column : 0);
    const auto b_values = warpwise::load4<ALIGNED>(b_from, first + b_row < k ? n - first_column - b_column : 0);
#pragma unroll
    for (int e = 0; e < 4; ++e) a_tile[a_column + e][a_row / 4].at[a_row % 4] = a_values.at[e];
    b_tile[b_row][b_column / 4] = b_values;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kK; ++i) {
      warpwise::Float4 a_fragment[kThreadTile / 4], b_fragment[kThreadTile / 4];
#pragma unroll
      for (int q = 0; q < kThreadTile / 4; ++q) {
        a_fragment[q] = a_tile[i][row / 4 + q];
        b_fragment[q] = b_tile[i][column / 4 + q];
      }
#pragma unroll
      for (int r = 0; r < kThreadTile; ++r) {
#pragma unroll
        for (int s = 0; s < kThreadTile; ++s) sums[r][s] += a_fragment[r / 4].at[r % 4] * b_fragment[s / 4].at[s % 4];
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < kThreadTile; ++r) {
    const long long c_row = first_row + row + r;
#pragma unroll
    for (int s = 0; s < kThreadTile; s += 4) {
      const int c_column = first_column + column + s;
      warpwise::store4<ALIGNED>(c + c_row * n + c_column, &sums[r][s], c_row < m ? n - c_column : 0);
    }
  }
}
