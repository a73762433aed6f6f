// One thread per element of a group's matrix, which sums over the rows of the group; adjacent threads compute adjacent
// columns.
//
// Both operands are read down columns, so the lanes of a warp read one row of each at a time.

#include <warpwise/core/numeric.cuh>

// a: (rows, k), grad: (rows, n), with strides of row and column in elements. result: (groups, k, n), row-major. Block:
// (x, y) columns and rows of a matrix. Grid: (cdiv(n, blockDim.x), cdiv(k, blockDim.y), z), z <= groups; z strides
// over groups.
template <class T>
__global__ void grouped_matmul_backward_naive(const T* a, const T* grad, const int* ends, T* result, int rows, int n,
                                              int k, int groups, long long a_row, long long a_column,
                                              long long grad_row, long long grad_column) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int k_row = blockIdx.y * blockDim.y + threadIdx.y;
  if (k_row >= k || column >= n) return;
  for (int group = blockIdx.z; group < groups; group += gridDim.z) {
    const int start = max(group ? ends[group - 1] : 0, 0), end = min(ends[group], rows);
    float sum = 0.0f;
    for (long long row = start; row < end; ++row) {
      sum += warpwise::to_float(a[row * a_row + k_row * a_column]) *
             warpwise::to_float(grad[row * grad_row + column * grad_column]);
    }
    result[(static_cast<long long>(group) * k + k_row) * n + column] = warpwise::from_float<T>(sum);
  }
}
