// One thread per element of C: adjacent threads compute adjacent columns; the z dimension of the grid strides over
// matrices.
//
// Operands are addressed by strides, so transposed and broadcast matrices need no copy. Each element takes 2 * k
// loads, at best from L1.

#include <warpwise/core/numeric.cuh>

// a: (batch, m, k), b: (batch, k, n), with strides of matrix, row and column in elements. c: (batch, m, n), row-major.
// Block: (x, y) columns and rows. Grid: (cdiv(n, blockDim.x), cdiv(m, blockDim.y), z), z <= batch; z strides over
// matrices.
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
