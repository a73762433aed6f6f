// One thread an element of C: neighbouring threads take neighbouring columns, the grid's z takes the matrices in turn.
//
// Factors are found by strides, so that a turned matrix or one that the whole batch shares needs no copy. Each of the
// 2 * k loads behind an element is served by L1 at best.

#include <warpwise/core/numeric.cuh>

// a: (batch, m, k), b: (batch, k, n), anyhow in memory: elements from one matrix, row or column to the next.
// c: (batch, m, n), row-major. Block: (x, y) columns and rows; grid: as many as cover (n, m), and z, at most the
// batch, of which each block takes every gridDim.z-th matrix.
template <class T>
__global__ void batched_matmul_naive(const T* a, const T* b, T* c, int batch, int m, int n, int k, long long a_matrix,
                                     long long a_row, long long a_column, long long b_matrix, long long b_row,
                                     long long b_column) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column >= n) return;
  for (long long matrix = blockIdx.z; matrix < batch; matrix += gridDim.z) {
    const T* a_from = a + matrix * a_matrix + row * a_row;
    const T* b_from = b + matrix * b_matrix + column * b_column;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) {
      sum += warpwise::to_float(a_from[i * a_column]) * warpwise::to_float(b_from[i * b_row]);
    }
    c[(matrix * m + row) * n + column] = warpwise::from_float<T>(sum);
  }
}
